import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.UUID;
import java.util.stream.Collectors;

/** What a subtask notes: when it read its records, and sums of the rows that it emits, by which all are compared. */
final class Notes implements Serializable {
    /** A time is noted behind so many records of a subtask. */
    private static final int NOTED_EVERY = 1000;

    private long[] times = new long[1 << 10];
    private int noted;
    private long read;
    private long records;
    private long sum;
    private long weighted;

    /** Notes that a record was read. */
    void read() {
        if (++read % NOTED_EVERY == 0) {
            if (noted == times.length) {
                times = Arrays.copyOf(times, 2 * noted);
            }
            times[noted++] = System.currentTimeMillis();
        }
    }

    /** Notes that a row of a key was emitted, for which a number stands. */
    void emitted(long key, long number) {
        records++;
        sum += number;
        weighted += number * number * key;
    }

    /** Notes that a row that was emitted before is none any more. */
    void takenBack(long key, long number) {
        records--;
        sum -= number;
        weighted -= number * number * key;
    }

    /** Writes all of it as JSON, to a file of its own in a folder. */
    void write(String folder) throws IOException {
        String told = Arrays.stream(times, 0, noted)
                .mapToObj(time -> String.format("%d.%03d", time / 1000, time % 1000))
                .collect(Collectors.joining(", ", "[", "]"));
        String line = String.format(
                "{\"records\": %d, \"sum\": %d, \"weighted\": %d, \"times\": %s}", records, sum, weighted, told);
        Files.writeString(Path.of(folder, UUID.randomUUID() + ".json"), line);
    }
}
