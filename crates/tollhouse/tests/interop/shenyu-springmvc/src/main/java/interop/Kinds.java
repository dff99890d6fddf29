package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.shenyu.register.client.http.HttpClientRegisterRepository;
import org.apache.shenyu.register.common.config.ShenyuRegisterCenterConfig;
import org.apache.shenyu.register.common.dto.MetaDataRegisterDTO;
import org.apache.shenyu.register.common.dto.URIRegisterDTO;
import org.apache.shenyu.register.common.enums.EventType;

/**
 * What clients for other kinds of services do: starters for them are not published in these versions, and all of them
 * register through the library that is used here. Each argument behind the admin's address is a kind, such as
 * {@code grpc}. They leave when the program is interrupted. The library registers only ports that its own program listens
 * on, so that all of them are served here.
 */
final class Kinds {

    private Kinds() {
    }

    static void register(String[] arguments) throws IOException, InterruptedException {
        ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread server = new Thread(() -> serve(listener));
        server.setDaemon(true);
        server.start();
        Properties login = new Properties();
        login.setProperty("username", "admin");
        login.setProperty("password", "123456");
        HttpClientRegisterRepository admin = new HttpClientRegisterRepository(
                new ShenyuRegisterCenterConfig("http", "http://" + arguments[0], login));
        List<URIRegisterDTO> addresses = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            admin.persistInterface(method(arguments[i], "127.0.0.1", listener.getLocalPort()));
            URIRegisterDTO address = address(arguments[i], "127.0.0.1", listener.getLocalPort());
            admin.persistURI(address);
            // The same once more is what a beat is to the admin.
            admin.persistURI(address);
            addresses.add(address);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> leave(admin, addresses)));
        System.out.println("registered 127.0.0.1:" + listener.getLocalPort());
        new CountDownLatch(1).await();
    }

    /** Takes every handshake of a WebSocket, and answers everything else with the path that it is asked for. */
    private static void serve(ServerSocket listener) {
        while (true) {
            try (Socket client = listener.accept()) {
                BufferedReader lines = new BufferedReader(new InputStreamReader(client.getInputStream()));
                String request = lines.readLine();
                boolean isHandshake = false;
                for (String line = request; line != null && !line.isEmpty(); line = lines.readLine()) {
                    isHandshake |= line.toLowerCase().startsWith("upgrade: websocket");
                }
                if (request == null) {
                    continue;
                }
                String path = request.split(" ")[1];
                String answer = isHandshake
                        ? "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
                        : "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + path.length() + "\r\n\r\n" + path;
                client.getOutputStream().write(answer.getBytes());
            } catch (IOException e) {
                System.err.println("a client has gone: " + e);
            }
        }
    }

    private static void leave(HttpClientRegisterRepository admin, List<URIRegisterDTO> addresses) {
        try {
            for (URIRegisterDTO address : addresses) {
                // What was registered last is what the library takes out when its program ends.
                admin.persistURI(address);
                close(admin);
            }
            System.out.println("left");
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
        }
    }

    private static MetaDataRegisterDTO method(String kind, String host, int port) {
        String context = "/" + kind.toLowerCase();
        return MetaDataRegisterDTO.builder()
                .appName("shop-" + kind)
                .contextPath(context)
                .path(context + "/find")
                .pathDesc("")
                .rpcType(kind)
                .serviceName("shop.Orders")
                .methodName("find")
                .ruleName(context + "/find")
                .parameterTypes("java.lang.String")
                .rpcExt("{\"timeout\":5000,\"methodType\":\"UNARY\"}")
                .enabled(true)
                .host(host)
                .port(port)
                .build();
    }

    private static URIRegisterDTO address(String kind, String host, int port) {
        URIRegisterDTO.Builder builder = URIRegisterDTO.builder()
                .appName("shop-" + kind)
                .contextPath("/" + kind.toLowerCase())
                .rpcType(kind)
                .host(host)
                .port(port)
                .eventType(EventType.REGISTER);
        return switch (kind) {
            case "websocket" -> builder.protocol("ws://").build();
            case "springCloud" -> builder.protocol("http://").build();
            default -> builder.build();
        };
    }

    /** It is called one way in 2.5 and another in 2.6. */
    private static void close(HttpClientRegisterRepository admin) throws ReflectiveOperationException {
        Method method;
        try {
            method = admin.getClass().getMethod("closeRepository");
        } catch (NoSuchMethodException e) {
            method = admin.getClass().getMethod("close");
        }
        method.invoke(admin);
    }
}
