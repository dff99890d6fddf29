package interop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/**
 * ShenYu's gateway as its own starter makes it: whoever starts it says the rest as arguments
 * ({@code --server.port=…}, {@code --shenyu.local.enabled=true}).
 */
@SpringBootApplication
public class Gateway {

    public static void main(String[] arguments) {
        SpringApplication gateway = new SpringApplication(Gateway.class);
        // The starter brings a listener of its own in place of Spring's.
        gateway.setAllowBeanDefinitionOverriding(true);
        gateway.run(arguments);
    }
}
