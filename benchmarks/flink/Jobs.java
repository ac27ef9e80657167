import java.io.IOException;
import java.nio.LongBuffer;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.SerializableTimestampAssigner;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * The workloads in Flink's own Java; the running count, the windows and Nexmark in SQL.
 *
 * <p>Arguments: the workload (or running_count/sql, windows/sql, nexmark: and what {@link Nexmark} asks for), the gap of
 * sessions or the size of windows in ms, a file of records with their number and that of their columns (see
 * {@link Records}), a folder for what was seen, the parallelism, the state backend (hashmap or rocksdb), the checkpoint
 * interval in ms, a folder for checkpoints.
 */
public final class Jobs {
    public static void main(String[] arguments) throws Exception {
        Records records = new Records(arguments[2], Long.parseLong(arguments[3]), Integer.parseInt(arguments[4]));
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(
                        Integer.parseInt(arguments[6]), settings(arguments[7], arguments[8], arguments[9]));
        job(arguments[0], Long.parseLong(arguments[1]), environment, records, arguments[5])
                .sinkTo(new DiscardingSink<>());
        environment.execute(arguments[0]);
    }

    private static Configuration settings(String backend, String interval, String checkpoints) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.interval", interval + " ms");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(checkpoints).toUri().toString());
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("taskmanager.memory.managed.size", "512m");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("restart-strategy.type", "none"); // else what fails is tried again without an end
        return settings;
    }

    private static DataStream<?> job(
            String workload, long length, StreamExecutionEnvironment environment, Records records, String seen)
            throws IOException {
        if (workload.startsWith("nexmark:")) {
            return Nexmark.of(environment, records, workload.substring("nexmark:".length()), seen);
        }
        switch (workload) {
            case "running_count":
                return counted(records.read(environment, LongBuffer::get, Types.LONG), new RunningCount(seen));
            case "running_count/sql":
                return RunningCountInSql.of(
                        environment, records.read(environment, LongBuffer::get, Types.LONG), seen);
            case "ttl":
                return counted(
                        records.read(environment, LongBuffer::get, Types.LONG),
                        new RunningCount(seen, StateTtlConfig.newBuilder(java.time.Duration.ofHours(1))
                                .setUpdateType(StateTtlConfig.UpdateType.OnCreateAndWrite)
                                .setStateVisibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
                                .build()));
            case "map_and_list":
                return mapAndList(environment, records, seen);
            case "sessions":
                return sessions(environment, records, seen, length);
            case "windows":
                return Windows.of(valued(environment, records), length, seen);
            case "windows/sql":
                return WindowsInSql.of(environment, valued(environment, records), length, seen);
            default:
                throw new IllegalArgumentException("There is no workload " + workload + ".");
        }
    }

    private static DataStream<?> counted(DataStream<Long> keys, RunningCount count) {
        return keys.keyBy(key -> key, Types.LONG).process(count).returns(Types.TUPLE(Types.LONG, Types.LONG));
    }

    private static DataStream<?> mapAndList(StreamExecutionEnvironment environment, Records records, String seen) {
        return records
                .read(
                        environment,
                        (values, place) ->
                                Tuple3.of(values.get(place), (int) values.get(place + 1), values.get(place + 2)),
                        Types.<Tuple3<Long, Integer, Long>>TUPLE(Types.LONG, Types.INT, Types.LONG))
                .keyBy(record -> record.f0, Types.LONG)
                .process(new MapAndList(seen))
                .returns(Types.TUPLE(Types.LONG, Types.INT, Types.LONG, Types.LONG));
    }

    private static DataStream<?> sessions(
            StreamExecutionEnvironment environment, Records records, String seen, long gap) {
        DataStream<Tuple2<Long, Long>> timed = records.read(
                environment,
                (values, place) -> Tuple2.of(values.get(place), values.get(place + 1)),
                Types.TUPLE(Types.LONG, Types.LONG));
        return timed.assignTimestampsAndWatermarks(inOrder((record, before) -> record.f1))
                .keyBy(record -> record.f0, Types.LONG)
                .process(new Sessions(seen, gap))
                .returns(Types.TUPLE(Types.LONG, Types.LONG));
    }

    /** Records of key, value and event time. */
    private static DataStream<Tuple3<Long, Long, Long>> valued(
            StreamExecutionEnvironment environment, Records records) {
        DataStream<Tuple3<Long, Long, Long>> timed = records.read(
                environment,
                (values, place) -> Tuple3.of(values.get(place), values.get(place + 1), values.get(place + 2)),
                Types.TUPLE(Types.LONG, Types.LONG, Types.LONG));
        return timed.assignTimestampsAndWatermarks(inOrder((record, before) -> record.f2));
    }

    private static <T> WatermarkStrategy<T> inOrder(SerializableTimestampAssigner<T> time) {
        return WatermarkStrategy.<T>forMonotonousTimestamps().withTimestampAssigner(time);
    }
}
