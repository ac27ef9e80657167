SELECT bidder, auction, price, t
FROM bid
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY t DESC) = 1
