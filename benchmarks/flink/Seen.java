import java.io.IOException;
import java.io.Serializable;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.types.Row;

/** Notes what SQL gives: rows whose first column is the key. The records of a row count as read when it is given. */
final class Seen extends RichMapFunction<Row, Long> {
    private final String seen;
    private final Told records;
    private final Told number;
    private transient Notes notes;

    /** Tells a number of a row. */
    interface Told extends Serializable {
        long of(Row row);
    }

    /**
     * @param seen folder for the notes
     * @param records tells how many records a row is made of, that are in no other one
     * @param number tells the number that stands for a row
     */
    Seen(String seen, Told records, Told number) {
        this.seen = seen;
        this.records = records;
        this.number = number;
    }

    @Override
    public void open(OpenContext context) {
        notes = new Notes();
    }

    @Override
    public Long map(Row row) {
        for (long left = records.of(row); left > 0; left--) {
            notes.read();
        }
        long told = number.of(row);
        notes.emitted((Long) row.getField(0), told);
        return told;
    }

    @Override
    public void close() throws IOException {
        notes.write(seen);
    }
}
