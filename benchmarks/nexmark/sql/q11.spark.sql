SELECT bidder, UNIX_MILLIS(session_window.start) AS start, UNIX_MILLIS(session_window.end) AS ends, n
FROM (
    SELECT bidder, SESSION_WINDOW(at, '10 seconds') AS session_window, COUNT(*) AS n
    FROM bid
    GROUP BY bidder, SESSION_WINDOW(at, '10 seconds')
)
