package interop;

import java.util.Map;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.servlet.context.ServletWebServerInitializedEvent;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;
import org.springframework.context.event.EventListener;

/** A Eureka server that is the only one. Prints its port on the first line. */
@SpringBootApplication
@EnableEurekaServer
public class Registry {
  public static void main(String[] arguments) {
    new SpringApplicationBuilder(Registry.class)
        .bannerMode(org.springframework.boot.Banner.Mode.OFF)
        .properties(
            Map.of(
                "server.port", 0,
                "server.address", "127.0.0.1",
                "logging.level.root", "OFF",
                "eureka.client.register-with-eureka", false,
                "eureka.client.fetch-registry", false,
                // Lists are served as they are, without the usual delay of half a minute.
                "eureka.server.use-read-only-response-cache", false,
                "eureka.server.enable-self-preservation", false))
        .run(arguments);
  }

  @EventListener
  public void announce(ServletWebServerInitializedEvent event) {
    System.out.println(event.getWebServer().getPort());
  }
}
