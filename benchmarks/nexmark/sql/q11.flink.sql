SELECT bidder, window_start, window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
