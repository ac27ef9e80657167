import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.util.Collector;

/** Counts a key's items in a map, keeps its values in a list; every eighth of an item emits the list's sum. */
final class MapAndList extends Noting<Tuple3<Long, Integer, Long>, Tuple4<Long, Integer, Long, Long>> {
    private static final int ITEMS = 10;
    private static final int EVERY = 8;

    private transient MapState<Integer, Long> counts;
    private transient ListState<Long> values;

    MapAndList(String seen) {
        super(seen);
    }

    @Override
    public void open(OpenContext context) throws Exception {
        super.open(context);
        counts = getRuntimeContext().getMapState(new MapStateDescriptor<>("counts", Types.INT, Types.LONG));
        values = getRuntimeContext().getListState(new ListStateDescriptor<>("values", Types.LONG));
    }

    @Override
    public void processElement(
            Tuple3<Long, Integer, Long> record, Context context, Collector<Tuple4<Long, Integer, Long, Long>> out)
            throws Exception {
        notes.read();
        Long before = counts.get(record.f1);
        long now = before == null ? 1 : before + 1;
        counts.put(record.f1, now);
        values.add(record.f2);
        if (now % EVERY == 0) {
            long total = 0;
            for (long value : values.get()) {
                total += value;
            }
            values.clear();
            out.collect(Tuple4.of(record.f0, record.f1, now, total));
            notes.emitted(record.f0, (total + now) * ITEMS + record.f1);
        }
    }
}
