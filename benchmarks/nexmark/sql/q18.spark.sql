SELECT bidder, auction, MAX_BY(price, t) AS price, MAX(t) AS t
FROM bid
GROUP BY bidder, auction
