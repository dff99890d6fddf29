// Go's own HTTP server and client on the two sides of a gateway.
//
//	peer serve          listens on a port of the kernel's choice and prints its address
//	peer ask <address>  sends requests through a gateway to such a server; silent when all is well
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"time"
)

// Larger than any buffer on the way.
const longBytes = 4 << 20

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "ask":
		ask("http://" + os.Args[2])
	default:
		log.Fatal("usage: peer serve | peer ask <address>")
	}
}

func serve() {
	http.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			log.Printf("echo: %v", err)
			return
		}
		w.Header().Set("X-Method", r.Method)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
		w.Write(body)
	})
	http.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Count")
		for i := 0; i < 5; i++ {
			fmt.Fprintf(w, "part %d\n", i)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Count", "5")
	})
	http.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "hinted")
	})
	http.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
	})
	http.HandleFunc("/refuse", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not that much", http.StatusRequestEntityTooLarge)
	})
	http.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(longBytes))
		w.Write(bytes.Repeat([]byte("x"), longBytes))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}

func ask(base string) {
	transport := &http.Transport{ExpectContinueTimeout: 5 * time.Second}
	client := &http.Client{Transport: transport, Timeout: 8 * time.Second}
	checks := map[string]func(*http.Client, string) error{
		"methods": askMethods, "stream": askStream, "hints": askHints, "chunked": askChunked,
		"expect": askExpect, "refusal": askRefusal, "redirect": askRedirect, "long": askLong,
		"reuse": askReuse,
	}
	for name, check := range checks {
		if err := check(client, base); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
}

// send makes a request and reads the whole answer.
func send(client *http.Client, method, url string, body io.Reader, edit func(*http.Request)) (*http.Response, string, error) {
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return nil, "", err
	}
	if edit != nil {
		edit(request)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

func want(what string, found, wanted any) error {
	if found != wanted {
		return fmt.Errorf("%s is %v instead of %v", what, found, wanted)
	}
	return nil
}

func askMethods(client *http.Client, base string) error {
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		response, text, err := send(client, method, base+"/echo", strings.NewReader("hi"), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if err := want("method", response.Header.Get("X-Method"), method); err != nil {
			return err
		}
		if method != "HEAD" {
			if err := want(method, text, "hi"); err != nil {
				return err
			}
		}
	}
	return nil
}

func askStream(client *http.Client, base string) error {
	response, text, err := send(client, "GET", base+"/stream", nil, func(request *http.Request) {
		request.Header.Set("TE", "trailers")
	})
	if err != nil {
		return err
	}
	if err := want("trailer", response.Trailer.Get("X-Count"), "5"); err != nil {
		return err
	}
	return want("lines", strings.Count(text, "\n"), 5)
}

func askHints(client *http.Client, base string) error {
	link := ""
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		link = header.Get("Link")
		return nil
	}}
	_, text, err := send(client, "GET", base+"/hints", nil, func(request *http.Request) {
		*request = *request.WithContext(httptrace.WithClientTrace(context.Background(), trace))
	})
	if err != nil {
		return err
	}
	if err := want("link", link, "</style.css>; rel=preload"); err != nil {
		return err
	}
	return want("body", text, "hinted")
}

func askChunked(client *http.Client, base string) error {
	// A reader of no known length is sent in chunks.
	body := io.MultiReader(strings.NewReader("one "), strings.NewReader("two"))
	response, text, err := send(client, "POST", base+"/echo", body, func(request *http.Request) {
		request.Trailer = http.Header{"X-Sum": {"7"}}
	})
	if err != nil {
		return err
	}
	// Trailers of requests end at the gateway.
	if err := want("trailer", response.Header.Get("X-Sum"), ""); err != nil {
		return err
	}
	return want("body", text, "one two")
}

func expecting(request *http.Request) { request.Header.Set("Expect", "100-continue") }

func askExpect(client *http.Client, base string) error {
	_, text, err := send(client, "PUT", base+"/echo", strings.NewReader("expected"), expecting)
	if err != nil {
		return err
	}
	return want("body", text, "expected")
}

func askRefusal(client *http.Client, base string) error {
	long := bytes.NewReader(make([]byte, longBytes))
	response, text, err := send(client, "PUT", base+"/refuse", long, expecting)
	if err != nil {
		return err
	}
	if err := want("status", response.StatusCode, http.StatusRequestEntityTooLarge); err != nil {
		return err
	}
	return want("body", text, "not that much\n")
}

func askRedirect(client *http.Client, base string) error {
	_, text, err := send(client, "POST", base+"/redirect", strings.NewReader("again"), nil)
	if err != nil {
		return err
	}
	return want("body", text, "again")
}

func askLong(client *http.Client, base string) error {
	_, text, err := send(client, "GET", base+"/long", nil, nil)
	if err != nil {
		return err
	}
	return want("length", len(text), longBytes)
}

// askReuse counts connections: a body read to its end leaves one that is used again.
func askReuse(_ *http.Client, base string) error {
	dials := 0
	dialer := &net.Dialer{}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return dialer.DialContext(ctx, network, address)
	}}
	client := &http.Client{Transport: transport}
	for i := 0; i < 50; i++ {
		if _, _, err := send(client, "POST", base+"/echo", strings.NewReader("x"), nil); err != nil {
			return err
		}
	}
	return want("connections", dials, 1)
}
