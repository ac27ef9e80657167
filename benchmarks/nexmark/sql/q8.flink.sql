SELECT p.id, p.window_start
FROM (
    SELECT id, window_start, window_end
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY id, window_start, window_end
) p
JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
