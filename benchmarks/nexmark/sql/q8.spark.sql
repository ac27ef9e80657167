SELECT p.id, UNIX_MILLIS(p.window.start) AS start
FROM (
    SELECT id, WINDOW(at, '10 seconds') AS window
    FROM person
) p
JOIN (
    SELECT seller, WINDOW(at, '10 seconds') AS window
    FROM auction
    GROUP BY seller, WINDOW(at, '10 seconds')
) a ON p.id = a.seller AND p.window = a.window
