import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.util.Collector;

/** Counts the records of a key until none comes for a while, in event time. */
final class Sessions extends Noting<Tuple2<Long, Long>, Tuple2<Long, Long>> {
    private final long gap;
    /** Count, and time of the last record. */
    private transient ValueState<Tuple2<Long, Long>> session;

    Sessions(String seen, long gap) {
        super(seen);
        this.gap = gap;
    }

    @Override
    public void open(OpenContext context) throws Exception {
        super.open(context);
        session = getRuntimeContext()
                .getState(new ValueStateDescriptor<>("session", Types.TUPLE(Types.LONG, Types.LONG)));
    }

    @Override
    public void processElement(Tuple2<Long, Long> record, Context context, Collector<Tuple2<Long, Long>> out)
            throws Exception {
        notes.read();
        Tuple2<Long, Long> held = session.value();
        long count = 1;
        if (held != null) {
            context.timerService().deleteEventTimeTimer(held.f1 + gap);
            if (held.f1 + gap < record.f1) {
                emit(record.f0, held.f0, out);
            } else {
                count += held.f0;
            }
        }
        session.update(Tuple2.of(count, record.f1));
        context.timerService().registerEventTimeTimer(record.f1 + gap);
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Tuple2<Long, Long>> out) throws Exception {
        Tuple2<Long, Long> held = session.value();
        if (held != null && held.f1 + gap == timestamp) {
            session.clear();
            emit(context.getCurrentKey(), held.f0, out);
        }
    }

    private void emit(long key, long count, Collector<Tuple2<Long, Long>> out) {
        out.collect(Tuple2.of(key, count));
        notes.emitted(key, count);
    }
}
