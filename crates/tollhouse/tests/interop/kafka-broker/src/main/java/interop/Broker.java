package interop;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Kafka's own broker, alone, in a folder that outlives it, with a consumer beside it that prints every record of every
 * topic, with the partition that Kafka's own producer chooses for its key: "record TOPIC PARTITION PROPER VALUE".
 */
public class Broker {

    private static final String LOGIN = "org.apache.kafka.common.security.";

    /** Folder, port in the open, port that asks for a log-in, port of the controller. */
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        Path settings = folder.resolve("server.properties");
        if (!Files.exists(settings)) {
            Files.createDirectories(folder);
            Files.writeString(settings, settings(folder, args[1], args[2], args[3]));
            format(settings);
        }
        Thread consumer = new Thread(() -> consume(args[1]));
        consumer.setDaemon(true);
        consumer.start();
        kafka.Kafka.main(new String[] {settings.toString()});
    }

    private static void format(Path settings) {
        String[] words = {
            "format", "--cluster-id", Uuid.randomUuid().toString(), "--config", settings.toString(),
            "--add-scram", "SCRAM-SHA-256=[name=bob,password=bob-secret]",
            "--add-scram", "SCRAM-SHA-512=[name=carol,password=carol-secret]",
        };
        int code = kafka.tools.StorageTool.execute(words, new PrintStream(System.out, true));
        if (code != 0) {
            throw new IllegalStateException("the folder cannot be made ready: " + code);
        }
    }

    private static String settings(Path folder, String open, String secured, String controller) {
        String listener = "listener.name.sasl_plaintext.";
        return String.join("\n",
            "process.roles=broker,controller",
            "node.id=1",
            "controller.quorum.voters=1@127.0.0.1:" + controller,
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            "listeners=PLAINTEXT://127.0.0.1:" + open + ",SASL_PLAINTEXT://127.0.0.1:" + secured
                + ",CONTROLLER://127.0.0.1:" + controller,
            "advertised.listeners=PLAINTEXT://127.0.0.1:" + open + ",SASL_PLAINTEXT://127.0.0.1:" + secured,
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            listener + "plain.sasl.jaas.config=" + LOGIN
                + "plain.PlainLoginModule required user_alice=\"alice-secret\";",
            listener + "scram-sha-256.sasl.jaas.config=" + LOGIN + "scram.ScramLoginModule required;",
            listener + "scram-sha-512.sasl.jaas.config=" + LOGIN + "scram.ScramLoginModule required;",
            "log.dirs=" + folder.resolve("logs"),
            "auto.create.topics.enable=true",
            "num.partitions=2",
            "offsets.topic.replication.factor=1",
            // One that is killed and comes back is not to be taken for a second one for long.
            "broker.session.timeout.ms=1000",
            "broker.heartbeat.interval.ms=200",
            "num.network.threads=1",
            "num.io.threads=2",
            "");
    }

    private static String proper(KafkaConsumer<String, String> consumer, ConsumerRecord<String, String> record) {
        if (record.key() == null) {
            return "-";
        }
        int partitions = consumer.partitionsFor(record.topic()).size();
        byte[] key = record.key().getBytes(StandardCharsets.UTF_8);
        return String.valueOf(BuiltInPartitioner.partitionForKey(key, partitions));
    }

    private static void consume(String port) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", "127.0.0.1:" + port);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("allow.auto.create.topics", "false");
        settings.put("reconnect.backoff.max.ms", "200");
        boolean serves = false;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            while (true) {
                Set<TopicPartition> partitions = new HashSet<>();
                try {
                    consumer.listTopics(Duration.ofSeconds(60)).forEach((topic, infos) ->
                        infos.forEach(info -> partitions.add(new TopicPartition(topic, info.partition()))));
                } catch (org.apache.kafka.common.errors.RetriableException late) {
                    continue;
                }
                if (!serves) {
                    System.out.println("serving at 127.0.0.1:" + port);
                    serves = true;
                }
                if (!partitions.equals(consumer.assignment())) {
                    consumer.assign(partitions);
                }
                if (partitions.isEmpty()) {
                    Thread.sleep(100);
                    continue;
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("record " + record.topic() + " " + record.partition() + " "
                        + proper(consumer, record) + " " + record.value());
                }
            }
        } catch (InterruptedException over) {
            Thread.currentThread().interrupt();
        }
    }
}
