package interop;

import java.io.IOException;
import java.net.ServerSocket;
import java.util.List;
import java.util.Map;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** Dubbo's own server, with a service that says what came: the gateway calls its methods generically. */
public class Server {

    /** What a service of Dubbo's users looks like. */
    public interface Orders {
        Order find(String id);

        int add(int first, int second);

        Order save(Order order);

        List<String> list(String[] names, Map<String, Object> how, long number, boolean flag, double amount);

        void nothing();

        String fail(String why);
    }

    /** A value with members of several types. */
    public static class Order implements java.io.Serializable {
        private String id;
        private long total;
        private List<Order> parts;

        public String getId() {
            return id;
        }

        public void setId(String id) {
            this.id = id;
        }

        public long getTotal() {
            return total;
        }

        public void setTotal(long total) {
            this.total = total;
        }

        public List<Order> getParts() {
            return parts;
        }

        public void setParts(List<Order> parts) {
            this.parts = parts;
        }
    }

    /** The service. */
    public static class Shop implements Orders {
        @Override
        public Order find(String id) {
            Order order = new Order();
            order.setId(id);
            order.setTotal(1L << 40);
            return order;
        }

        @Override
        public int add(int first, int second) {
            return first + second;
        }

        @Override
        public Order save(Order order) {
            order.setTotal(order.getTotal() + 1);
            return order;
        }

        @Override
        public List<String> list(String[] names, Map<String, Object> how, long number, boolean flag, double amount) {
            return List.of(String.join("+", names), how.toString(), number + " " + flag + " " + amount);
        }

        @Override
        public void nothing() {
        }

        @Override
        public String fail(String why) {
            throw new IllegalStateException(why);
        }
    }

    public static void main(String[] arguments) throws IOException {
        int port = freePort();
        ServiceConfig<Orders> service = new ServiceConfig<>();
        service.setInterface(Orders.class);
        service.setRef(new Shop());
        service.setVersion("1.0");
        ApplicationConfig application = new ApplicationConfig("shop");
        application.setQosEnable(false);
        ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
        protocol.setHost("127.0.0.1");
        DubboBootstrap.getInstance()
                .application(application)
                .registry(new RegistryConfig("N/A"))
                .protocol(protocol)
                .service(service)
                .start();
        System.out.println("serving at 127.0.0.1:" + port);
        DubboBootstrap.getInstance().await();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
