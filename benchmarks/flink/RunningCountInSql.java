import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;

/** The running count in SQL, as updates by key: a row for each record. */
final class RunningCountInSql {
    private RunningCountInSql() {}

    static DataStream<?> of(StreamExecutionEnvironment environment, DataStream<Long> keys, String seen) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        Schema key = Schema.newBuilder().column("f0", "BIGINT NOT NULL").build();
        tables.createTemporaryView("clicks", tables.fromDataStream(keys, key));
        Table counts = tables.sqlQuery("SELECT f0 AS k, COUNT(*) AS n FROM clicks GROUP BY f0");
        Schema keyed = Schema.newBuilder()
                .column("k", "BIGINT NOT NULL")
                .column("n", "BIGINT NOT NULL")
                .primaryKey("k")
                .build();
        return tables.toChangelogStream(counts, keyed, ChangelogMode.upsert())
                .map(new Seen(seen, row -> 1, row -> (Long) row.getField(1)))
                .returns(Types.LONG);
    }
}
