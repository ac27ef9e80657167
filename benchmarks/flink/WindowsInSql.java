import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** The windows in SQL: a row for each key and window, when it is over. */
final class WindowsInSql {
    private WindowsInSql() {}

    static DataStream<?> of(
            StreamExecutionEnvironment environment,
            DataStream<Tuple3<Long, Long, Long>> records,
            long size,
            String seen) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC); // windows are counted from 1970, in this zone
        Schema columns = Schema.newBuilder()
                .column("f0", "BIGINT NOT NULL")
                .column("f1", "BIGINT NOT NULL")
                .column("f2", "BIGINT NOT NULL")
                .columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)")
                .watermark("rowtime", "SOURCE_WATERMARK()")
                .build();
        tables.createTemporaryView("records", tables.fromDataStream(records, columns));
        Table windows = tables.sqlQuery("SELECT f0 AS k, window_start, COUNT(*) AS n, SUM(f1) AS total "
                + "FROM TABLE(TUMBLE(TABLE records, DESCRIPTOR(rowtime), " + interval(size) + ")) "
                + "GROUP BY f0, window_start, window_end");
        return tables.toDataStream(windows)
                .map(new Seen(seen, row -> (Long) row.getField(2), WindowsInSql::number))
                .returns(Types.LONG);
    }

    /** Spells ms in days and times of day: an interval in seconds alone has too few digits. */
    private static String interval(long ms) {
        Duration one = Duration.ofMillis(ms);
        return String.format(
                "INTERVAL '%d %02d:%02d:%02d.%03d' DAY TO SECOND(3)",
                one.toDays(), one.toHoursPart(), one.toMinutesPart(), one.toSecondsPart(), one.toMillisPart());
    }

    private static long number(Row row) {
        long start = ((LocalDateTime) row.getField(1)).toInstant(ZoneOffset.UTC).toEpochMilli();
        return Windows.number(start, (Long) row.getField(2), (Long) row.getField(3));
    }
}
