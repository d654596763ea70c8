package spreds;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.Recorder;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Redis as a look-aside cache under YCSB: a read that misses asks a backend, whose time is drawn,
 * and fills the cache. YCSB's own Redis binding stores, and calls a miss an error.
 *
 * <p>Prints a line a second, and one at the end: "spreds " and JSON, of which a line has
 * everything since the start, and quartiles of the reads since the line before.
 */
public final class LookAsideRedis extends DB {
  private static final long REPORT_NANOS = 1_000_000_000L;
  private static final long MOST_NANOS = 3_600_000_000_000L;
  private static final int DIGITS = 3;
  private static final double[] PERCENTILES = {25, 50, 75, 95, 99};

  // Of all threads: YCSB makes an object of this class for each.
  private static final LongAdder REQUESTS = new LongAdder();
  private static final LongAdder HITS = new LongAdder();
  private static final LongAdder UPDATES = new LongAdder();
  private static final LongAdder ACCESS_NANOS = new LongAdder();
  private static final Recorder RECENT = new Recorder(MOST_NANOS, DIGITS);
  private static final Histogram SETTLED = new Histogram(MOST_NANOS, DIGITS);
  private static int running;
  private static int started;
  private static long beganNanos;
  private static long settleNanos;

  private Jedis redis;
  private Random random;
  private double backendNanos;
  private boolean waits;
  private byte[] filled;

  @Override
  public void init() throws DBException {
    Properties properties = getProperties();
    redis =
        new Jedis(
            properties.getProperty("spreds.host", "127.0.0.1"),
            Integer.parseInt(properties.getProperty("spreds.port", "6379")));
    backendNanos = 1e9 * Double.parseDouble(properties.getProperty("spreds.backend", "0"));
    waits = Boolean.parseBoolean(properties.getProperty("spreds.waits", "false"));
    filled = new byte[Integer.parseInt(properties.getProperty("fieldlength", "100"))];
    long seed = Long.parseLong(properties.getProperty("spreds.seed", "1"));
    synchronized (LookAsideRedis.class) {
      random = new Random(seed * 1_000_003L + started++);
      if (running++ == 0) {
        settleNanos =
            (long) (1e9 * Double.parseDouble(properties.getProperty("spreds.settle", "0")));
        beganNanos = System.nanoTime();
        Thread reporter = new Thread(LookAsideRedis::reportEachSecond, "reports");
        reporter.setDaemon(true);
        reporter.start();
      }
    }
    try {
      redis.ping();
    } catch (RuntimeException error) {
      throw new DBException(error);
    }
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    byte[] name = key.getBytes(StandardCharsets.UTF_8);
    long began = System.nanoTime();
    boolean hit = redis.get(name) != null;
    long nanos = System.nanoTime() - began;
    if (!hit) {
      long backend = (long) (-backendNanos * Math.log(1 - random.nextDouble()));
      if (waits) {
        long until = System.nanoTime() + backend;
        for (long left = backend; left > 0; left = until - System.nanoTime()) {
          LockSupport.parkNanos(left);
        }
        nanos = System.nanoTime() - began;
      } else {
        nanos += backend;
      }
      redis.set(name, filled);
    }
    REQUESTS.increment();
    if (hit) {
      HITS.increment();
    }
    ACCESS_NANOS.add(nanos);
    RECENT.recordValue(Math.min(nanos, MOST_NANOS));
    return Status.OK;
  }

  /** The application writes through: backend and cache have the new value. */
  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    ByteArrayOutputStream value = new ByteArrayOutputStream(filled.length);
    for (ByteIterator one : values.values()) {
      byte[] bytes = one.toArray();
      value.write(bytes, 0, bytes.length);
    }
    redis.set(key.getBytes(StandardCharsets.UTF_8), value.toByteArray());
    UPDATES.increment();
    return Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status delete(String table, String key) {
    redis.del(key);
    return Status.OK;
  }

  @Override
  public Status scan(
      String table,
      String start,
      int count,
      Set<String> fields,
      Vector<java.util.HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public void cleanup() {
    redis.close();
    synchronized (LookAsideRedis.class) {
      if (--running == 0) {
        report(true);
      }
    }
  }

  private static void reportEachSecond() {
    for (long due = beganNanos + REPORT_NANOS; ; due += REPORT_NANOS) {
      for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
        LockSupport.parkNanos(left);
      }
      synchronized (LookAsideRedis.class) {
        if (running == 0) {
          return;
        }
        report(false);
      }
    }
  }

  /** Callers hold the class' lock. */
  private static void report(boolean last) {
    long now = System.nanoTime() - beganNanos;
    Histogram recent = RECENT.getIntervalHistogram();
    // A window belongs to the settled part if it began in it; windows are a second, so near enough.
    if (now - REPORT_NANOS >= settleNanos || (last && SETTLED.getTotalCount() == 0)) {
      SETTLED.add(recent);
    }
    StringBuilder line = new StringBuilder("spreds {");
    line.append(String.format(Locale.ROOT, "\"seconds\": %.6f", now / 1e9));
    line.append(", \"requests\": ").append(REQUESTS.sum());
    line.append(", \"hits\": ").append(HITS.sum());
    line.append(", \"updates\": ").append(UPDATES.sum());
    line.append(String.format(Locale.ROOT, ", \"access_seconds\": %.9f", ACCESS_NANOS.sum() / 1e9));
    percentiles(line.append(", \"percentiles\": "), recent);
    if (last) {
      percentiles(line.append(", \"settled\": "), SETTLED);
    }
    System.out.println(line.append('}'));
    System.out.flush();
  }

  private static void percentiles(StringBuilder line, Histogram of) {
    String comma = "{";
    for (double percentile : PERCENTILES) {
      double seconds = of.getValueAtPercentile(percentile) / 1e9;
      line.append(comma)
          .append(String.format(Locale.ROOT, "\"%.0f\": %.9f", percentile, seconds));
      comma = ", ";
    }
    line.append('}');
  }
}
