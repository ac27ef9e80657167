SELECT t - t % 10000 AS start, auction, bidder, price, t
FROM bid
QUALIFY price = MAX(price) OVER (PARTITION BY start)
