SELECT start, auction, n
FROM (
    SELECT t - t % 2000 - 2000 * back AS start, auction, COUNT(*) AS n
    FROM bid, range(5) AS r(back)
    GROUP BY ALL
)
QUALIFY n = MAX(n) OVER (PARTITION BY start)
