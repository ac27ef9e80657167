import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.UUID;
import java.util.stream.Collectors;

/** What a subtask notes of the counts that it emits: when, and sums by which all of them are compared. */
final class Notes {
    /** A time is noted behind so many records of a subtask. */
    private static final int NOTED_EVERY = 1000;

    private final long[] times = new long[1 << 20];
    private int noted;
    private long records;
    private long sum;
    private long weighted;

    void add(long key, long count) {
        sum += count;
        weighted += count * key;
        if (++records % NOTED_EVERY == 0) {
            times[noted++] = System.currentTimeMillis();
        }
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
