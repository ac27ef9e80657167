SELECT id, best.bidder, best.price, -best.before AS t
FROM (
    SELECT a.id, MAX(STRUCT(b.price, -b.t AS before, b.bidder)) AS best
    FROM auction a
    JOIN bid b
        ON a.id = b.auction AND b.at BETWEEN a.at AND a.at + INTERVAL '7' SECOND AND b.t <= a.expires
    GROUP BY a.id, a.at
)
