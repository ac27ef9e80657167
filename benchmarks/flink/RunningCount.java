import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.util.Collector;

/** Emits, with each record, how many records its key has had so far; the count may have a time to live. */
final class RunningCount extends Noting<Long, Tuple2<Long, Long>> {
    private final StateTtlConfig ttl;
    private transient ValueState<Long> count;

    RunningCount(String seen) {
        this(seen, null);
    }

    RunningCount(String seen, StateTtlConfig ttl) {
        super(seen);
        this.ttl = ttl;
    }

    @Override
    public void open(OpenContext context) throws Exception {
        super.open(context);
        ValueStateDescriptor<Long> descriptor = new ValueStateDescriptor<>("count", Types.LONG);
        if (ttl != null) {
            descriptor.enableTimeToLive(ttl);
        }
        count = getRuntimeContext().getState(descriptor);
    }

    @Override
    public void processElement(Long key, Context context, Collector<Tuple2<Long, Long>> out) throws Exception {
        notes.read();
        Long before = count.value();
        long now = before == null ? 1 : before + 1;
        count.update(now);
        out.collect(Tuple2.of(key, now));
        notes.emitted(key, now);
    }
}
