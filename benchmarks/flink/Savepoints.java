import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Savepoints and checkpoints of a state and jobs that are restored from them: one process and one cluster for all.
 *
 * <p>Arguments: a file of values (see {@link Values}) and one of values that replace the first of them, the number of
 * each, the length of a value, the parallelism and another one, the state backend (hashmap or rocksdb), whether
 * snapshots are compressed, how often each is done, a folder. Each line of `times.jsonl` there is one time; each folder
 * of `seen` has what a restored job ended with.
 */
public final class Savepoints {
    private static final int MAX_PARALLELISM = 128;
    private static final int LOOK_MS = 2;

    private final MiniCluster cluster;
    private final Configuration settings;
    private final int length;
    private final Path work;

    private Savepoints(MiniCluster cluster, Configuration settings, int length, Path work) {
        this.cluster = cluster;
        this.settings = settings;
        this.length = length;
        this.work = work;
    }

    public static void main(String[] arguments) throws Exception {
        int[] numbers = new int[5]; // values, replaced ones, length, parallelism, the other one
        for (int place = 0; place < numbers.length; place++) {
            numbers[place] = Integer.parseInt(arguments[2 + place]);
        }
        int rounds = Integer.parseInt(arguments[9]);
        Path work = Path.of(arguments[10]);
        Configuration settings = settings(arguments[7], arguments[8], rounds, work);
        MiniClusterConfiguration slots = new MiniClusterConfiguration.Builder()
                .setConfiguration(settings)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(Math.max(numbers[3], numbers[4]))
                .build();
        try (MiniCluster cluster = new MiniCluster(slots)) {
            cluster.start();
            Savepoints bench = new Savepoints(cluster, settings, numbers[2], work);
            Taken taken = bench.write(arguments[0], numbers[0], numbers[1], numbers[3], rounds);
            String changes = arguments[1];
            int changed = numbers[1];
            for (int round = 0; round < rounds; round++) {
                String canonical = taken.canonical.get(round);
                bench.restore("restore", canonical, changes, changed, numbers[3], round, false);
                String wide = bench.restore("rescale", canonical, changes, changed, numbers[4], round, true);
                bench.restore("back", wide, changes, changed, numbers[3], round, false);
                bench.restore("native", taken.ours.get(round), changes, changed, numbers[3], round, false);
                bench.restore("checkpointed", taken.checkpoints.get(round), changes, changed, numbers[3], round, false);
            }
        }
    }

    /** Where savepoints and checkpoints lie, round by round. */
    private static final class Taken {
        private final List<String> canonical = new ArrayList<>();
        private final List<String> ours = new ArrayList<>();
        private final List<String> checkpoints = new ArrayList<>();
    }

    private static Configuration settings(String backend, String compressed, int rounds, Path work) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.snapshot-compression", compressed);
        settings.setString("execution.checkpointing.interval", "240 h"); // on, and none but those that are asked for
        settings.setString("execution.checkpointing.checkpoints-after-tasks-finish", "false");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.num-retained", String.valueOf(rounds));
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", work.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("restart-strategy.type", "none");
        settings.setString("taskmanager.memory.managed.size", "512m");
        settings.setString("pipeline.object-reuse", "true");
        return settings;
    }

    /** Loads the state, and takes savepoints and checkpoints of it, in turn. Each checkpoint finds some keys changed. */
    private Taken write(String values, int count, int changed, int parallelism, int rounds) throws Exception {
        Taken taken = new Taken();
        JobID job = start(values, count, changed, parallelism, "", null);
        await(job, count);
        for (int round = 0; round < rounds; round++) {
            taken.canonical.add(savepoint(job, parallelism, SavepointFormatType.CANONICAL));
            taken.ours.add(savepoint(job, parallelism, SavepointFormatType.NATIVE));
            Values.again = round + 1;
            await(job, count + (round + 1L) * changed);
            Clock clock = new Clock();
            taken.checkpoints.add(cluster.triggerCheckpoint(job).get());
            note("checkpoint", parallelism, clock);
        }
        cluster.cancelJob(job).get();
        cluster.requestJobResult(job).get();
        return taken;
    }

    private String savepoint(JobID job, int parallelism, SavepointFormatType format) throws Exception {
        Clock clock = new Clock();
        String place = trigger(job, format);
        note(format.name().toLowerCase(Locale.ROOT) + " savepoint", parallelism, clock);
        return place;
    }

    private String trigger(JobID job, SavepointFormatType format) throws Exception {
        return cluster.triggerSavepoint(job, work.resolve("savepoints").toString(), false, format).get();
    }

    /**
     * Starts a job with a savepoint, and ends it when it has noted what it keeps. There are two times: until it has
     * processed its first records, and until a checkpoint is complete that holds what they made of the state.
     *
     * @param further whether a savepoint of it is to be taken, too, which no time is noted of
     * @return where that savepoint lies; null without one
     */
    private String restore(
            String what, String savepoint, String values, int count, int parallelism, int round, boolean further)
            throws Exception {
        Path seen = Files.createDirectories(work.resolve("seen").resolve(what + "-" + round));
        Clock clock = new Clock();
        JobID job = start(values, count, 0, parallelism, seen.toString(), savepoint);
        await(job, count);
        note(what, parallelism, clock);
        cluster.triggerCheckpoint(job).get();
        note(what + " to checkpoint", parallelism, clock);
        String place = further ? trigger(job, SavepointFormatType.CANONICAL) : null;
        Values.ended = true;
        cluster.requestJobResult(job).get().toJobExecutionResult(getClass().getClassLoader());
        return place;
    }

    private JobID start(String values, int count, int repeated, int parallelism, String seen, String savepoint)
            throws Exception {
        Values.ended = false;
        Values.again = 0;
        Kept.PROCESSED.set(0);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(parallelism);
        environment.setMaxParallelism(MAX_PARALLELISM);
        TypeInformation<Tuple2<Long, byte[]>> type = Types.TUPLE(Types.LONG, TypeInformation.of(byte[].class));
        environment
                .addSource(new Values(values, count, length, repeated), "values", type)
                .keyBy(record -> record.f0, Types.LONG)
                .transform("keep", Types.LONG, new Kept(seen))
                .uid("keep")
                .sinkTo(new DiscardingSink<>());
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        if (savepoint != null) {
            graph.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(savepoint, false, RecoveryClaimMode.NO_CLAIM));
        }
        return cluster.submitJob(graph).get().getJobID();
    }

    /** Waits until a job has processed so many records. */
    private void await(JobID job, long records) throws Exception {
        while (Kept.PROCESSED.get() < records) {
            if (cluster.getJobStatus(job).get().isGloballyTerminalState()) {
                cluster.requestJobResult(job).get().toJobExecutionResult(getClass().getClassLoader());
                throw new IllegalStateException("The job ended before it had processed its records.");
            }
            Thread.sleep(LOOK_MS);
        }
    }

    private void note(String what, int parallelism, Clock clock) throws IOException {
        String line = String.format(
                Locale.ROOT,
                "{\"what\": \"%s\", \"parallelism\": %d, \"seconds\": %.4f, \"cpu_seconds\": %.4f}%n",
                what,
                parallelism,
                (System.nanoTime() - clock.begun) / 1e9,
                (cpu() - clock.cpu) / 1e9);
        Files.writeString(work.resolve("times.jsonl"), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** When something began, by the clock and in CPU time of the process. */
    private static final class Clock {
        private final long begun = System.nanoTime();
        private final long cpu = cpu();
    }
}
