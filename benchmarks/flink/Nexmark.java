import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple6;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * A query of Nexmark in SQL: over the events of all kinds in one stream, with a view for each kind.
 *
 * <p>A record is six numbers: the kind (0 a person, 1 an auction, 2 a bid), up to four columns of it, its event time.
 */
final class Nexmark {
    private static final long FACTOR = 1_000_003;

    private Nexmark() {}

    /** @param query how many columns of the result are its key, a colon, and the file with the SQL of the query */
    static DataStream<?> of(StreamExecutionEnvironment environment, Records records, String query, String seen)
            throws IOException {
        int keys = Integer.parseInt(query.substring(0, query.indexOf(':')));
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC); // windows are counted from 1970, in this zone
        Schema.Builder columns = Schema.newBuilder();
        for (int column = 0; column < 6; column++) {
            columns.column("f" + column, "BIGINT NOT NULL");
        }
        columns.columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)").watermark("rowtime", "SOURCE_WATERMARK()");
        tables.createTemporaryView("events", tables.fromDataStream(read(environment, records, seen), columns.build()));
        view(tables, "person", 0, "f1 AS id, f2 AS state");
        view(tables, "auction", 1, "f1 AS id, f2 AS seller, f3 AS category, f4 AS expires");
        view(tables, "bid", 2, "f1 AS auction, f2 AS bidder, f3 AS price");
        String sql = Files.readString(Path.of(query.substring(query.indexOf(':') + 1)));
        return tables.toChangelogStream(tables.sqlQuery(sql)).map(new Sums(seen, keys)).returns(Types.LONG);
    }

    private static void view(StreamTableEnvironment tables, String name, int kind, String columns) {
        String query = "SELECT " + columns + ", f5 AS t, rowtime FROM events WHERE f0 = " + kind;
        tables.createTemporaryView(name, tables.sqlQuery(query));
    }

    private static DataStream<Tuple6<Long, Long, Long, Long, Long, Long>> read(
            StreamExecutionEnvironment environment, Records records, String seen) {
        return records.read(
                        environment,
                        (values, place) -> Tuple6.of(
                                values.get(place),
                                values.get(place + 1),
                                values.get(place + 2),
                                values.get(place + 3),
                                values.get(place + 4),
                                values.get(place + 5)),
                        Types.<Tuple6<Long, Long, Long, Long, Long, Long>>TUPLE(
                                Types.LONG, Types.LONG, Types.LONG, Types.LONG, Types.LONG, Types.LONG))
                .map(new Read<>(seen))
                .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG, Types.LONG, Types.LONG))
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple6<Long, Long, Long, Long, Long, Long>>forMonotonousTimestamps()
                                .withTimestampAssigner((event, before) -> event.f5));
    }

    /** Notes when records were read, at the source: a query tells of few of them. */
    private static final class Read<T> extends RichMapFunction<T, T> {
        private final String seen;
        private transient Notes notes;

        Read(String seen) {
            this.seen = seen;
        }

        @Override
        public void open(OpenContext context) {
            notes = new Notes();
        }

        @Override
        public T map(T event) {
            notes.read();
            return event;
        }

        @Override
        public void close() throws IOException {
            notes.write(seen);
        }
    }

    /** Sums the rows of a result. A later row of a key replaces the one before: what it comes to in the end is left. */
    private static final class Sums extends RichMapFunction<Row, Long> {
        private final String seen;
        private final int keys;
        private transient Notes notes;
        private transient Map<Long, Long> standing;

        Sums(String seen, int keys) {
            this.seen = seen;
            this.keys = keys;
        }

        @Override
        public void open(OpenContext context) {
            notes = new Notes();
            standing = new HashMap<>();
        }

        @Override
        public Long map(Row row) {
            if (row.getKind() == RowKind.UPDATE_BEFORE) {
                return 0L; // not all operators tell of it: what stands for the key is known here
            }
            long first = number(row.getField(0));
            long number = 0;
            long key = 0;
            for (int column = 0; column < row.getArity(); column++) {
                key = column == keys ? number : key;
                number = number * FACTOR + number(row.getField(column));
            }
            boolean there = row.getKind() != RowKind.DELETE;
            if (keys > 0) {
                Long before = there ? standing.put(key, number) : standing.remove(key);
                if (before != null) {
                    notes.takenBack(first, before);
                }
            }
            if (there) {
                notes.emitted(first, number);
            }
            return number;
        }

        private static long number(Object value) {
            if (value instanceof LocalDateTime) {
                return ((LocalDateTime) value).toInstant(ZoneOffset.UTC).toEpochMilli();
            }
            return value instanceof Instant ? ((Instant) value).toEpochMilli() : ((Number) value).longValue();
        }

        @Override
        public void close() throws IOException {
            notes.write(seen);
        }
    }
}
