SELECT category, CAST(SUM(final) AS BIGINT) AS total, COUNT(*) AS n
FROM (
    SELECT a.id, a.category, MAX(b.price) AS final
    FROM auction a
    JOIN bid b ON a.id = b.auction AND b.t BETWEEN a.t AND a.expires
    GROUP BY a.id, a.category
) AS won
GROUP BY category
