package interop;

import io.grpc.ManagedChannelBuilder;
import io.grpc.Server;
import io.grpc.ServerInterceptors;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.testing.integration.AbstractInteropTest;
import io.grpc.testing.integration.TestServiceImpl;
import java.io.File;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * The interoperability suite of grpc-java, as a server and as a client of whatever stands between: gRPC's own cases,
 * as they are published, in one small program. A case that fails ends the client with its reason.
 */
public final class Suite extends AbstractInteropTest {

    private final String address;
    private final File authority;
    private final String name;

    private Suite(String address, File authority, String name) {
        this.address = address;
        this.authority = authority;
        this.name = name;
    }

    /** Arguments as those of the suite in Go: --serve, or --call with an address, --ca and --name. */
    public static void main(String[] arguments) throws Exception {
        List<String> words = new ArrayList<>(List.of(arguments));
        if (words.contains("--serve")) {
            serve();
            return;
        }
        String authority = value(words, "--ca");
        File file = authority == null ? null : new File(authority);
        call(value(words, "--call"), file, value(words, "--name"));
        // Threads of the library would go on for a while.
        System.exit(0);
    }

    private static String value(List<String> words, String option) {
        int at = words.indexOf(option);
        return at < 0 ? null : words.get(at + 1);
    }

    private static void serve() throws Exception {
        TestServiceImpl service = new TestServiceImpl(Executors.newScheduledThreadPool(2));
        Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
                .addService(ServerInterceptors.intercept(service, TestServiceImpl.interceptors()))
                .build()
                .start();
        System.out.println("serves 127.0.0.1:" + server.getPort());
        server.awaitTermination();
    }

    private interface Case {
        void run(Suite suite) throws Exception;
    }

    private static void call(String address, File authority, String name) throws Exception {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("empty_unary", Suite::emptyUnary);
        cases.put("large_unary", Suite::largeUnary);
        cases.put("client_streaming", Suite::clientStreaming);
        cases.put("server_streaming", Suite::serverStreaming);
        cases.put("ping_pong", Suite::pingPong);
        cases.put("empty_stream", Suite::emptyStream);
        cases.put("timeout_on_sleeping_server", Suite::timeoutOnSleepingServer);
        cases.put("cancel_after_begin", Suite::cancelAfterBegin);
        cases.put("cancel_after_first_response", Suite::cancelAfterFirstResponse);
        cases.put("status_code_and_message", Suite::statusCodeAndMessage);
        cases.put("special_status_message", Suite::specialStatusMessage);
        cases.put("custom_metadata", Suite::customMetadata);
        cases.put("unimplemented_method", Suite::unimplementedMethod);
        cases.put("unimplemented_service", Suite::unimplementedService);
        for (Map.Entry<String, Case> one : cases.entrySet()) {
            // Each test of theirs has an instance of its own.
            Suite suite = new Suite(address, authority, name);
            suite.setUp();
            try {
                one.getValue().run(suite);
                suite.tearDown();
            } catch (Exception | AssertionError failure) {
                System.err.println("failed " + one.getKey());
                failure.printStackTrace();
                System.exit(1);
            }
            System.out.println("passed " + one.getKey());
        }
    }

    @Override
    protected ManagedChannelBuilder<?> createChannelBuilder() {
        NettyChannelBuilder builder = NettyChannelBuilder.forTarget(address);
        if (authority == null) {
            return builder.usePlaintext();
        }
        try {
            builder.sslContext(GrpcSslContexts.forClient().trustManager(authority).build());
        } catch (javax.net.ssl.SSLException failure) {
            throw new IllegalStateException(failure);
        }
        return builder.overrideAuthority(name);
    }

    /** As long as other suites wait: a bound on hangs, on machines that are busy too. */
    @Override
    protected int operationTimeoutMillis() {
        return 30_000;
    }

    /** Counts of calls are between a server and a client of one process. */
    @Override
    protected boolean metricsExpected() {
        return false;
    }
}
