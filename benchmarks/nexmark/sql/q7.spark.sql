SELECT UNIX_MILLIS(b.window.start) AS start, b.auction, b.bidder, b.price, b.t
FROM (
    SELECT WINDOW(at, '10 seconds') AS window, auction, bidder, price, t
    FROM bid
) b
JOIN (
    SELECT WINDOW(at, '10 seconds') AS window, MAX(price) AS highest
    FROM bid
    GROUP BY WINDOW(at, '10 seconds')
) m ON b.window = m.window AND b.price = m.highest
