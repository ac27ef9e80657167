import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * The running count in Flink's own Java: emit, with each record, how many records its key has had so far.
 *
 * <p>Arguments: the form (java or sql), a file of keys (64-bit integers, little-endian), the number of keys in it, a folder
 * for what was seen, the parallelism, the state backend (hashmap or rocksdb), the checkpoint interval in ms, a folder for
 * checkpoints.
 */
public final class RunningCount {
    public static void main(String[] arguments) throws Exception {
        String seen = arguments[3];
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", arguments[5]);
        settings.setString("execution.checkpointing.interval", arguments[6] + " ms");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(arguments[7]).toUri().toString());
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("taskmanager.memory.managed.size", "512m");
        settings.setString("pipeline.object-reuse", "true");
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(arguments[4]), settings);
        NumberSequenceSource numbers = new NumberSequenceSource(0, Long.parseLong(arguments[2]) - 1);
        DataStream<Long> keys = environment
                .fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
                .map(new KeyOfNumber(arguments[1]))
                .returns(Types.LONG);
        if (arguments[0].equals("sql")) {
            counted(environment, keys).map(new Noting(seen)).returns(Types.LONG).sinkTo(new DiscardingSink<>());
        } else {
            keys.keyBy(key -> key, Types.LONG)
                    .process(new Count(seen))
                    .returns(Types.TUPLE(Types.LONG, Types.LONG))
                    .sinkTo(new DiscardingSink<>());
        }
        environment.execute("running count");
    }

    /** The same in SQL, as updates by key: a row for each record. */
    private static DataStream<Row> counted(StreamExecutionEnvironment environment, DataStream<Long> keys) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        Schema key = Schema.newBuilder().column("f0", "BIGINT NOT NULL").build();
        tables.createTemporaryView("clicks", tables.fromDataStream(keys, key));
        Table counts = tables.sqlQuery("SELECT f0 AS k, COUNT(*) AS n FROM clicks GROUP BY f0");
        Schema keyed = Schema.newBuilder()
                .column("k", "BIGINT NOT NULL")
                .column("n", "BIGINT NOT NULL")
                .primaryKey("k")
                .build();
        return tables.toChangelogStream(counts, keyed, ChangelogMode.upsert());
    }

    /** The key of a record by its number: the file is mapped into memory, and read like an array. */
    static final class KeyOfNumber extends RichMapFunction<Long, Long> {
        private final String file;
        private transient LongBuffer keys;

        KeyOfNumber(String file) {
            this.file = file;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            try (FileChannel channel = FileChannel.open(Path.of(file))) {
                ByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
                keys = mapped.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            }
        }

        @Override
        public Long map(Long number) {
            return keys.get((int) (long) number);
        }
    }

    /** Counts. */
    static final class Count extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
        private final String seen;
        private transient ValueState<Long> count;
        private transient Notes notes;

        Count(String seen) {
            this.seen = seen;
        }

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            notes = new Notes();
        }

        @Override
        public void processElement(Long key, Context context, Collector<Tuple2<Long, Long>> out) throws Exception {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            out.collect(Tuple2.of(key, now));
            notes.add(key, now);
        }

        @Override
        public void close() throws IOException {
            notes.write(seen);
        }
    }

    /** Notes what SQL has counted. */
    static final class Noting extends RichMapFunction<Row, Long> {
        private final String seen;
        private transient Notes notes;

        Noting(String seen) {
            this.seen = seen;
        }

        @Override
        public void open(OpenContext context) {
            notes = new Notes();
        }

        @Override
        public Long map(Row row) {
            long count = (Long) row.getField(1);
            notes.add((Long) row.getField(0), count);
            return count;
        }

        @Override
        public void close() throws IOException {
            notes.write(seen);
        }
    }
}
