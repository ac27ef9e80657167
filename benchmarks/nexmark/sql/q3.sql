SELECT p.id, p.state, a.id AS auction
FROM auction a
JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state <= 2
