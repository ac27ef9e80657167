SELECT UNIX_MILLIS(window.start) AS start, item.auction, item.n
FROM (
    SELECT window, MAX(n) AS most, COLLECT_LIST(STRUCT(auction, n)) AS items
    FROM (
        SELECT WINDOW(at, '10 seconds', '2 seconds') AS window, auction, COUNT(*) AS n
        FROM bid
        GROUP BY WINDOW(at, '10 seconds', '2 seconds'), auction
    )
    GROUP BY window
)
LATERAL VIEW EXPLODE(items) AS item
WHERE item.n = most
