import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.util.Collector;

/** Keeps the last value of each key; where its input ends, it notes all that it keeps. */
final class Kept extends KeyedProcessOperator<Long, Tuple2<Long, byte[]>, Long> {
    /** How many records the job has processed, by all subtasks, which are in one process. */
    static final AtomicLong PROCESSED = new AtomicLong();

    private final String seen;

    /** @param seen folder for the notes */
    Kept(String seen) {
        super(new Function());
        this.seen = seen;
    }

    @Override
    public void finish() throws Exception {
        Notes notes = new Notes();
        CRC32 sum = new CRC32();
        this.<Long>getKeyedStateBackend()
                .applyToAllKeys(
                        VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, value(), (key, value) -> {
                            sum.reset();
                            sum.update(value.value());
                            notes.emitted(key, sum.getValue());
                        });
        notes.write(seen);
        super.finish();
    }

    private static ValueStateDescriptor<byte[]> value() {
        return new ValueStateDescriptor<>("kept", byte[].class);
    }

    /** The function, as an author writes it. */
    private static final class Function extends KeyedProcessFunction<Long, Tuple2<Long, byte[]>, Long> {
        private transient ValueState<byte[]> kept;

        @Override
        public void open(OpenContext context) throws IOException {
            kept = getRuntimeContext().getState(value());
        }

        @Override
        public void processElement(Tuple2<Long, byte[]> record, Context context, Collector<Long> out)
                throws IOException {
            kept.update(record.f1);
            PROCESSED.incrementAndGet();
        }
    }
}
