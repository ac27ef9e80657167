SELECT b.window_start, b.auction, b.bidder, b.price, b.t
FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
) b
JOIN (
    SELECT window_start, window_end, MAX(price) AS highest
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.highest
