SELECT id, bidder, price, t
FROM (
    SELECT a.id, b.bidder, b.price, b.t,
        ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.t ASC) AS place
    FROM auction a
    JOIN bid b ON a.id = b.auction AND b.t BETWEEN a.t AND a.expires
) AS bids
WHERE place <= 1
