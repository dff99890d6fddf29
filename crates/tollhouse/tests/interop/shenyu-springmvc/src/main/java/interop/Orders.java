package interop;

import java.io.IOException;
import java.net.ServerSocket;
import java.util.Map;
import org.apache.shenyu.client.springmvc.annotation.ShenyuSpringMvcClient;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/**
 * A service that registers its methods with ShenYu's admin, whose address is the argument, and serves until it is
 * stopped. Nothing of its client is changed.
 */
@SpringBootApplication
@RestController
@RequestMapping("/orders")
@ShenyuSpringMvcClient(path = "/orders")
public class Orders {

    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments.length > 1) {
            Kinds.register(arguments);
            return;
        }
        new SpringApplicationBuilder(Orders.class).properties(Map.of(
                "server.port", freePort(),
                "server.address", "127.0.0.1",
                "logging.level.root", "warn",
                "shenyu.register.registerType", "http",
                "shenyu.register.serverLists", "http://" + arguments[0],
                "shenyu.register.props.username", "admin",
                "shenyu.register.props.password", "123456",
                "shenyu.client.http.props.contextPath", "/shop",
                "shenyu.client.http.props.appName", "shop",
                "shenyu.client.http.props.host", "127.0.0.1"))
                .run();
        System.out.println("serving");
    }

    /** A port that nobody listens on: the client registers the configured one. */
    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    @GetMapping("/find")
    @ShenyuSpringMvcClient(path = "/find", desc = "an order by its number")
    public Map<String, Object> find(@RequestParam("id") String id) {
        return Map.of("found", id);
    }

    @GetMapping("/of/{customer}/all")
    @ShenyuSpringMvcClient(path = "/of/{customer}/all")
    public Map<String, Object> all(@PathVariable("customer") String customer) {
        return Map.of("customer", customer);
    }

    @PostMapping("/save")
    @ShenyuSpringMvcClient(path = "/save")
    public Map<String, Object> save(@RequestBody Map<String, Object> order) {
        return Map.of("saved", order);
    }
}
