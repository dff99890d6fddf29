// Scrapes a metrics page once, with the parsers of Prometheus itself, and prints what Prometheus would store: a line for
// each sample, native histogram and exemplar.
//
// Arguments: the address of the page, and the value of the header Accept.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	if err := scrape(os.Args[1], os.Args[2]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func scrape(url, accept string) error {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	contentType := answer.Header.Get("Content-Type")
	parser, err := textparse.New(page, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var of labels.Labels
		switch entry {
		case textparse.EntrySeries:
			_, _, value := parser.Series()
			parser.Labels(&of)
			fmt.Println("sample", of, value)
		case textparse.EntryHistogram:
			_, _, histogram, _ := parser.Histogram()
			if err := histogram.Validate(); err != nil {
				return fmt.Errorf("%s: %w", of, err)
			}
			parser.Labels(&of)
			fmt.Println("native", of, histogram.Count, histogram.Sum, histogram.Schema, histogram)
		default:
			continue
		}
		var found exemplar.Exemplar
		for parser.Exemplar(&found) {
			fmt.Println("exemplar", of, found.Labels, found.Value)
		}
	}
}
