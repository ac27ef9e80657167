import java.io.IOException;
import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.RichWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Count and sum of each key in windows of event time, one after the other, emitted once each. */
final class Windows {
    private static final int MARKS = 11;

    private Windows() {}

    static DataStream<?> of(DataStream<Tuple3<Long, Long, Long>> records, long size, String seen) {
        TypeInformation<Tuple2<Long, Long>> pair = Types.TUPLE(Types.LONG, Types.LONG);
        Notes notes = new Notes(); // a subtask gets both functions as one object graph, so they keep one copy of it
        return records.keyBy(record -> record.f0, Types.LONG)
                .window(TumblingEventTimeWindows.of(Duration.ofMillis(size)))
                .aggregate(
                        new CountAndSum(notes),
                        new RowOfWindow(notes, seen),
                        pair,
                        Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG));
    }

    /** The number that stands for a window. */
    static long number(long start, long count, long total) {
        return (total + count) * MARKS + start % MARKS;
    }

    /** Counts the records of a window and adds up their values. */
    private static final class CountAndSum
            implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private final Notes notes;

        CountAndSum(Notes notes) {
            this.notes = notes;
        }

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> record, Tuple2<Long, Long> held) {
            notes.read();
            held.f0 += 1;
            held.f1 += record.f1;
            return held;
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> held) {
            return held;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> one, Tuple2<Long, Long> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1 + other.f1);
        }
    }

    /** Puts key and start of a window to its count and sum. */
    private static final class RowOfWindow
            extends RichWindowFunction<Tuple2<Long, Long>, Tuple4<Long, Long, Long, Long>, Long, TimeWindow> {
        private final Notes notes;
        private final String seen;

        RowOfWindow(Notes notes, String seen) {
            this.notes = notes;
            this.seen = seen;
        }

        @Override
        public void apply(
                Long key,
                TimeWindow window,
                Iterable<Tuple2<Long, Long>> results,
                Collector<Tuple4<Long, Long, Long, Long>> out) {
            for (Tuple2<Long, Long> result : results) {
                out.collect(Tuple4.of(key, window.getStart(), result.f0, result.f1));
                notes.emitted(key, number(window.getStart(), result.f0, result.f1));
            }
        }

        @Override
        public void close() throws IOException {
            notes.write(seen);
        }
    }
}
