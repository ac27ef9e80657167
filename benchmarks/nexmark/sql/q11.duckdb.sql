SELECT bidder, MIN(t) AS start, MAX(t) + 10000 AS ends, COUNT(*) AS n
FROM (
    SELECT bidder, t, SUM(begins) OVER (PARTITION BY bidder ORDER BY t) AS session
    FROM (
        SELECT bidder, t, CASE WHEN t - LAG(t) OVER (PARTITION BY bidder ORDER BY t) <= 10000 THEN 0 ELSE 1 END AS begins
        FROM bid
    )
)
GROUP BY bidder, session
