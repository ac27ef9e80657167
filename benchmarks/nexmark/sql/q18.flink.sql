SELECT bidder, auction, price, t
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY rowtime DESC) AS place
    FROM bid
)
WHERE place <= 1
