import java.io.IOException;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;

/** The base of all functions: it keeps notes, and writes them when all is done, the last timers included. */
abstract class Noting<I, O> extends KeyedProcessFunction<Long, I, O> {
    private final String seen;
    protected transient Notes notes;

    /** @param seen folder for the notes */
    Noting(String seen) {
        this.seen = seen;
    }

    @Override
    public void open(OpenContext context) throws Exception {
        notes = new Notes();
    }

    @Override
    public void close() throws IOException {
        notes.write(seen);
    }
}
