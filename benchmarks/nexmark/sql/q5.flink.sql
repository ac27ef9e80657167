SELECT c.window_start, c.auction, c.n
FROM (
    SELECT auction, window_start, window_end, COUNT(*) AS n
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
) c
JOIN (
    SELECT window_start, window_end, MAX(n) AS most
    FROM (
        SELECT auction, window_start, window_end, COUNT(*) AS n
        FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end
    )
    GROUP BY window_start, window_end
) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.most
