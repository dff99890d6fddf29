// The interoperability suite of grpc-go, as a server and as a client of whatever stands between: gRPC's own
// cases, as they are published, in one small program. A case that fails ends the client with its reason.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
)

// No case takes longer.
const patience = 30 * time.Second

func main() {
	serves := flag.Bool("serve", false, "serve the suite's service, and say where")
	address := flag.String("call", "", "run the suite's cases against this address")
	ca := flag.String("ca", "", "call over TLS, and trust this authority")
	name := flag.String("name", "", "the name to ask for over TLS")
	flag.Parse()
	switch {
	case *serves:
		serve()
	case *address != "":
		call(*address, *ca, *name)
	default:
		flag.Usage()
		os.Exit(2)
	}
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	reflection.Register(server)
	fmt.Println("serves", listener.Addr())
	check(server.Serve(listener))
}

func call(address, ca, name string) {
	transport := insecure.NewCredentials()
	if ca != "" {
		var err error
		transport, err = credentials.NewClientTLSFromFile(ca, name)
		check(err)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	check(err)
	defer connection.Close()
	client := testgrpc.NewTestServiceClient(connection)
	absent := testgrpc.NewUnimplementedServiceClient(connection)
	cases := []struct {
		name string
		run  func(context.Context)
	}{
		{"empty_unary", func(c context.Context) { interop.DoEmptyUnaryCall(c, client) }},
		{"large_unary", func(c context.Context) { interop.DoLargeUnaryCall(c, client) }},
		{"client_streaming", func(c context.Context) { interop.DoClientStreaming(c, client) }},
		{"server_streaming", func(c context.Context) { interop.DoServerStreaming(c, client) }},
		{"ping_pong", func(c context.Context) { interop.DoPingPong(c, client) }},
		{"empty_stream", func(c context.Context) { interop.DoEmptyStream(c, client) }},
		{"timeout_on_sleeping_server", func(c context.Context) { interop.DoTimeoutOnSleepingServer(c, client) }},
		{"cancel_after_begin", func(c context.Context) { interop.DoCancelAfterBegin(c, client) }},
		{"cancel_after_first_response", func(c context.Context) { interop.DoCancelAfterFirstResponse(c, client) }},
		{"status_code_and_message", func(c context.Context) { interop.DoStatusCodeAndMessage(c, client) }},
		{"special_status_message", func(c context.Context) { interop.DoSpecialStatusMessage(c, client) }},
		{"custom_metadata", func(c context.Context) { interop.DoCustomMetadata(c, client) }},
		{"unimplemented_method", func(c context.Context) { interop.DoUnimplementedMethod(c, connection) }},
		{"unimplemented_service", func(c context.Context) { interop.DoUnimplementedService(c, absent) }},
	}
	for _, one := range cases {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		one.run(ctx)
		cancel()
		fmt.Println("passed", one.name)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
