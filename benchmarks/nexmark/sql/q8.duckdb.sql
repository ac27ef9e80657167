SELECT DISTINCT p.id, p.t - p.t % 10000 AS start
FROM person p
JOIN auction a ON a.seller = p.id AND a.t - a.t % 10000 = p.t - p.t % 10000
