// A program as people write them with polaris-go, in its default configuration but for the address: it
// registers, sends heartbeats, discovers, watches and deregisters; it publishes a configuration file and
// learns of its next release. Each step prints a line; the first that does not do
// what its user relies on ends the program with the reason and exit code 1.
//
// The same source is built against several versions of the SDK: `cargo x install` copies it and asks for
// another version in go.mod. go.sum knows what all of them need.
package main

import (
	"fmt"
	"os"
	"time"

	polaris "github.com/polarismesh/polaris-go"
	"github.com/polarismesh/polaris-go/pkg/config"
	"github.com/polarismesh/polaris-go/pkg/model"
)

const (
	namespace = "default"
	service   = "interop-go"
	// A service for whose calls whoever runs this has made a rule: `env` of the query chooses the metadata.
	routed = "interop-go-routed"
	host      = "127.0.0.1"

	group = "interop-go"
	file  = "application.yaml"

	// Ports tell the instances apart; nothing listens there.
	beatingPort = 7001
	silentPort  = 7002
	passingPort = 7003
	devPort     = 7004
	testPort    = 7005

	// Seconds between beats. Three times this without one is unhealthy.
	ttlSeconds = 1

	// The SDK asks every two to four seconds; health takes three TTL and a look.
	eventMax = 12 * time.Second
	// The first call waits for the first answers; what it must not wait for is a time-out inside.
	firstCallMax = time.Second
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: polaris-go HOST:PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

// peer is both sides of the SDK over one connection, and the events of the service.
type peer struct {
	provider polaris.ProviderAPI
	consumer polaris.ConsumerAPI
	router   polaris.RouterAPI
	events   <-chan model.SubScribeEvent
	files    polaris.ConfigAPI
	groups   polaris.ConfigGroupAPI
	changes  <-chan model.ConfigFileChangeEvent
}

func run(address string) error {
	configuration := config.NewDefaultConfiguration([]string{address})
	// By default the SDK looks for configuration files on port 8093 of its own machine.
	configuration.GetConfigFile().GetConfigConnectorConfig().SetAddresses([]string{address})
	context, err := polaris.NewSDKContextByConfig(configuration)
	if err != nil {
		return fmt.Errorf("the SDK does not start: %w", err)
	}
	defer context.Destroy()
	p := &peer{
		provider: polaris.NewProviderAPIByContext(context),
		consumer: polaris.NewConsumerAPIByContext(context),
		router:   polaris.NewRouterAPIByContext(context),
		files:    polaris.NewConfigAPIByContext(context),
		groups:   polaris.NewConfigGroupAPIByContext(context),
	}
	steps := []struct {
		name string
		run  func() error
	}{
		{"register with automatic heartbeats", func() error { return p.register(beatingPort, true) }},
		{"GetInstances", p.getInstances},
		{"GetOneInstance", p.getOneInstance},
		{"GetAllInstances", p.getAllInstances},
		{"GetServices", p.getServices},
		{"GetRouteRule", p.getRouteRule},
		{"a routing rule chooses", p.rulesChoose},
		{"WatchService", p.watch},
		{"register another", func() error { return p.register(passingPort, false) }},
		{"event: added", func() error { return p.waitFor("an added instance", added(passingPort)) }},
		{"heartbeat by hand", func() error { return p.beat(passingPort) }},
		{"deregister the other", func() error { return p.deregister(passingPort) }},
		{"event: deleted", func() error { return p.waitFor("a deleted instance", deleted(passingPort)) }},
		{"register one that stays silent", func() error { return p.register(silentPort, false) }},
		{"event: unhealthy", func() error { return p.waitFor("an unhealthy instance", unhealthy(silentPort)) }},
		{"heartbeats kept the first healthy", p.onlyBeatingIsChosen},
		{"deregister", func() error { return p.deregister(beatingPort) }},
		{"event: deleted at last", func() error { return p.waitFor("a deleted instance", deleted(beatingPort)) }},
		{"CreateConfigFile", func() error { return p.files.CreateConfigFile(namespace, group, file, "a: 1") }},
		{"PublishConfigFile", func() error { return p.files.PublishConfigFile(namespace, group, file) }},
		{"FetchConfigFile", p.fetchFile},
		{"FetchConfigGroup", p.fetchGroup},
		{"UpdateConfigFile", func() error { return p.files.UpdateConfigFile(namespace, group, file, "a: 2") }},
		{"publish again", func() error { return p.files.PublishConfigFile(namespace, group, file) }},
		{"event: a new release", p.waitForRelease},
	}
	for _, step := range steps {
		began := time.Now()
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("ok: %s (%d ms)\n", step.name, time.Since(began).Milliseconds())
	}
	return nil
}

func (p *peer) register(port int, automatic bool) error {
	request := &polaris.InstanceRegisterRequest{}
	request.Namespace = namespace
	request.Service = service
	request.Host = host
	request.Port = port
	request.Metadata = map[string]string{"port": fmt.Sprint(port)}
	request.SetTTL(ttlSeconds)
	call := p.provider.Register
	if automatic {
		call = p.provider.RegisterInstance
	}
	response, err := call(request)
	if err != nil {
		return err
	}
	if response.InstanceID == "" {
		return fmt.Errorf("the answer has no id: %+v", response)
	}
	return nil
}

func (p *peer) beat(port int) error {
	request := &polaris.InstanceHeartbeatRequest{}
	request.Namespace = namespace
	request.Service = service
	request.Host = host
	request.Port = port
	return p.provider.Heartbeat(request)
}

func (p *peer) deregister(port int) error {
	request := &polaris.InstanceDeRegisterRequest{}
	request.Namespace = namespace
	request.Service = service
	request.Host = host
	request.Port = port
	return p.provider.Deregister(request)
}

func (p *peer) getInstances() error {
	request := &polaris.GetInstancesRequest{}
	request.Namespace = namespace
	request.Service = service
	began := time.Now()
	response, err := p.consumer.GetInstances(request)
	if err != nil {
		return err
	}
	if took := time.Since(began); took >= firstCallMax {
		return fmt.Errorf("the first call took %v", took)
	}
	return onlyOn(response.Instances, beatingPort)
}

func (p *peer) getAllInstances() error {
	request := &polaris.GetAllInstancesRequest{}
	request.Namespace = namespace
	request.Service = service
	response, err := p.consumer.GetAllInstances(request)
	if err != nil {
		return err
	}
	return onlyOn(response.Instances, beatingPort)
}

func (p *peer) getOneInstance() error {
	request := &polaris.GetOneInstanceRequest{}
	request.Namespace = namespace
	request.Service = service
	response, err := p.consumer.GetOneInstance(request)
	if err != nil {
		return err
	}
	instance := response.GetInstance()
	if instance == nil {
		return fmt.Errorf("no instance was chosen")
	}
	return onlyOn([]model.Instance{instance}, beatingPort)
}

func (p *peer) getServices() error {
	request := &polaris.GetServicesRequest{}
	request.Namespace = namespace
	response, err := p.consumer.GetServices(request)
	if err != nil {
		return err
	}
	for _, found := range response.Value {
		if found.Service == service && found.Namespace == namespace {
			return nil
		}
	}
	return fmt.Errorf("%s is not among %d services", service, len(response.Value))
}

func (p *peer) getRouteRule() error {
	request := &polaris.GetServiceRuleRequest{}
	request.Namespace = namespace
	request.Service = service
	_, err := p.consumer.GetRouteRule(request)
	return err
}

// rulesChoose: of two instances, each for one environment, a call gets the one that the rule names for it.
func (p *peer) rulesChoose() error {
	ports := map[string]uint32{"dev": devPort, "test": testPort}
	for env, port := range ports {
		request := &polaris.InstanceRegisterRequest{}
		request.Namespace = namespace
		request.Service = routed
		request.Host = host
		request.Port = int(port)
		request.Metadata = map[string]string{"env": env}
		if _, err := p.provider.Register(request); err != nil {
			return err
		}
	}
	all := &polaris.GetAllInstancesRequest{}
	all.Namespace = namespace
	all.Service = routed
	response, err := p.consumer.GetAllInstances(all)
	if err != nil {
		return err
	}
	if len(response.Instances) != len(ports) {
		return fmt.Errorf("%d instances instead of %d", len(response.Instances), len(ports))
	}
	for env, port := range ports {
		request := &polaris.ProcessRoutersRequest{}
		request.DstInstances = response
		request.AddArguments(model.BuildQueryArgument("env", env))
		chosen, err := p.router.ProcessRouters(request)
		if err != nil {
			return err
		}
		if len(chosen.Instances) != 1 || chosen.Instances[0].GetPort() != port {
			return fmt.Errorf("a call with env=%s may go to %v", env, chosen.Instances)
		}
	}
	return nil
}

func (p *peer) watch() error {
	request := &polaris.WatchServiceRequest{}
	request.Key = model.ServiceKey{Namespace: namespace, Service: service}
	response, err := p.consumer.WatchService(request)
	if err != nil {
		return err
	}
	p.events = response.EventChannel
	return onlyOn(response.GetAllInstancesResp.Instances, beatingPort)
}

// waitFor drops events until one is what was waited for.
func (p *peer) waitFor(what string, isIt func(*model.InstanceEvent) bool) error {
	late := time.After(eventMax)
	for {
		select {
		case event := <-p.events:
			if event, ok := event.(*model.InstanceEvent); ok && isIt(event) {
				return nil
			}
		case <-late:
			return fmt.Errorf("waited %v in vain for %s", eventMax, what)
		}
	}
}

// onlyBeatingIsChosen: by now the silent instance was found unhealthy, so GetInstances leaves it out; the
// one that beats by itself is as old and still there.
func (p *peer) onlyBeatingIsChosen() error {
	request := &polaris.GetInstancesRequest{}
	request.Namespace = namespace
	request.Service = service
	response, err := p.consumer.GetInstances(request)
	if err != nil {
		return err
	}
	return onlyOn(response.Instances, beatingPort)
}

func (p *peer) fetchFile() error {
	request := &polaris.GetConfigFileRequest{GetConfigFileRequest: &model.GetConfigFileRequest{
		Namespace: namespace, FileGroup: group, FileName: file, Subscribe: true,
	}}
	found, err := p.files.FetchConfigFile(request)
	if err != nil {
		return err
	}
	if found.GetContent() != "a: 1" {
		return fmt.Errorf("another content: %q", found.GetContent())
	}
	p.changes = found.AddChangeListenerWithChannel()
	return nil
}

func (p *peer) fetchGroup() error {
	found, err := p.groups.GetConfigGroup(namespace, group)
	if err != nil {
		return err
	}
	files, _, ok := found.GetFiles()
	if !ok || len(files) != 1 || files[0].FileName != file {
		return fmt.Errorf("other files: %v", files)
	}
	return nil
}

// waitForRelease: the SDK begins to ask five seconds after the first file.
func (p *peer) waitForRelease() error {
	late := time.After(eventMax)
	for {
		select {
		case change := <-p.changes:
			if change.NewValue == "a: 2" {
				return nil
			}
		case <-late:
			return fmt.Errorf("waited %v in vain for the new release", eventMax)
		}
	}
}

func added(port uint32) func(*model.InstanceEvent) bool {
	return func(event *model.InstanceEvent) bool {
		return event.AddEvent != nil && includes(event.AddEvent.Instances, port)
	}
}

func deleted(port uint32) func(*model.InstanceEvent) bool {
	return func(event *model.InstanceEvent) bool {
		return event.DeleteEvent != nil && includes(event.DeleteEvent.Instances, port)
	}
}

// unhealthy: it was seen to become so, or was so when the SDK looked for the first time.
func unhealthy(port uint32) func(*model.InstanceEvent) bool {
	return func(event *model.InstanceEvent) bool {
		var seen []model.Instance
		if event.AddEvent != nil {
			seen = event.AddEvent.Instances
		}
		if event.UpdateEvent != nil {
			for _, update := range event.UpdateEvent.UpdateList {
				seen = append(seen, update.After)
			}
		}
		for _, instance := range seen {
			if instance.GetPort() == port && !instance.IsHealthy() {
				return true
			}
		}
		return false
	}
}

func includes(instances []model.Instance, port uint32) bool {
	for _, instance := range instances {
		if instance.GetPort() == port {
			return true
		}
	}
	return false
}

// onlyOn: one instance, healthy, as it was registered.
func onlyOn(instances []model.Instance, port uint32) error {
	if len(instances) != 1 {
		return fmt.Errorf("%d instances instead of one: %v", len(instances), instances)
	}
	instance := instances[0]
	if instance.GetHost() != host || instance.GetPort() != port || !instance.IsHealthy() {
		return fmt.Errorf("another instance: %v", instance)
	}
	if instance.GetMetadata()["port"] != fmt.Sprint(port) || instance.GetWeight() != 100 {
		return fmt.Errorf("not as registered: %v", instance)
	}
	return nil
}
