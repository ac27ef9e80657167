import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * The source of all jobs: records in a file that is mapped into memory, and read like an array.
 *
 * <p>The file has a part of the same length for each source subtask, with all records of its keys, in order: so those of
 * a key come from one subtask. A record is as many 64-bit integers as it has columns, little-endian. The shorter parts
 * are filled up with records of the key {@link #NO_KEY}, which are left out.
 *
 * @param file the file
 * @param numbers how many records there are in it, those left out included
 * @param columns how many columns a record has
 */
record Records(String file, long numbers, int columns) {
    private static final long NO_KEY = Long.MIN_VALUE;
    /** So many records are mapped together: a mapping has 2 GiB at most. */
    private static final int MAPPED = 10_000_000;

    /** Makes a record of what stands at a place of the file. */
    interface Maker<T> extends Serializable {
        T make(LongBuffer values, int place);
    }

    <T> DataStream<T> read(StreamExecutionEnvironment environment, Maker<T> maker, TypeInformation<T> type) {
        return environment
                .fromSource(new NumberSequenceSource(0, numbers - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .flatMap(new RecordOfNumber<>(file, columns, maker))
                .returns(type);
    }

    /** The record of a number. */
    private static final class RecordOfNumber<T> extends RichFlatMapFunction<Long, T> {
        /** The subtasks that have a part: all are in one process. */
        private static final Set<Integer> BEGUN = ConcurrentHashMap.newKeySet();

        private final String file;
        private final int columns;
        private final Maker<T> maker;
        private transient boolean begun;
        private transient LongBuffer[] mapped;

        RecordOfNumber(String file, int columns, Maker<T> maker) {
            this.file = file;
            this.columns = columns;
            this.maker = maker;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            try (FileChannel channel = FileChannel.open(Path.of(file))) {
                long length = (long) MAPPED * columns * Long.BYTES;
                mapped = new LongBuffer[(int) ((channel.size() + length - 1) / length)];
                for (int n = 0; n < mapped.length; n++) {
                    long size = Math.min(length, channel.size() - n * length);
                    ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, n * length, size);
                    mapped[n] = bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
                }
            }
        }

        @Override
        public void flatMap(Long number, Collector<T> out) throws InterruptedException {
            if (!begun) {
                begin();
            }
            LongBuffer values = mapped[(int) (number / MAPPED)];
            int place = (int) (number % MAPPED) * columns;
            if (values.get(place) != NO_KEY) {
                out.collect(maker.make(values, place));
            }
        }

        /** Waits until each subtask has a part: one that read two, one behind the other, would have late records. */
        private void begin() throws InterruptedException {
            TaskInfo task = getRuntimeContext().getTaskInfo();
            BEGUN.add(task.getIndexOfThisSubtask());
            while (BEGUN.size() < task.getNumberOfParallelSubtasks()) {
                Thread.sleep(1);
            }
            begun = true;
        }
    }
}
