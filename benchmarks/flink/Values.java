import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/**
 * The source of a state: a key and a value for each value in a file, all of the same length. Keys are counted from 0.
 *
 * <p>It does not end with the file, so that the job goes on, and can be asked for savepoints. It has no state. When it is
 * told to, it emits the first keys again, with the values that they have: they count as changed, and the state stays.
 */
final class Values extends RichParallelSourceFunction<Tuple2<Long, byte[]>> {
    /** Ends the input of the job, in all subtasks: they are in one process. */
    static volatile boolean ended;

    /** How often the first keys are to be emitted again, by all subtasks. */
    static volatile int again;

    private static final int IDLE_MS = 1;

    private final String file;
    private final int count;
    private final int length;
    private final int repeated;
    private volatile boolean cancelled;

    /** @param repeated how many of the first keys are emitted again */
    Values(String file, int count, int length, int repeated) {
        this.file = file;
        this.count = count;
        this.length = length;
        this.repeated = repeated;
    }

    @Override
    public void run(SourceContext<Tuple2<Long, byte[]>> context) throws Exception {
        try (FileChannel channel = FileChannel.open(Path.of(file))) {
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            emit(mapped, count, context);
            int done = 0;
            while (!ended && !cancelled) {
                if (done < again) {
                    emit(mapped, repeated, context);
                    done++;
                } else {
                    Thread.sleep(IDLE_MS);
                }
            }
        }
    }

    /** Emits those of the first keys that belong to this subtask. */
    private void emit(MappedByteBuffer mapped, int keys, SourceContext<Tuple2<Long, byte[]>> context) {
        TaskInfo task = getRuntimeContext().getTaskInfo();
        for (int key = task.getIndexOfThisSubtask(); key < keys; key += task.getNumberOfParallelSubtasks()) {
            byte[] value = new byte[length];
            mapped.get(key * length, value);
            context.collect(Tuple2.of((long) key, value));
        }
    }

    @Override
    public void cancel() {
        cancelled = true;
    }
}
