// Evaluates the expression of an alert with the engine of Prometheus, over series that are read from the standard input.
//
// Arguments: the file of the rules, the name of the alert, and the minute of the evaluation. Each line of the input is a
// series in the notation of promtool's tests, with a value a minute; native histograms are written as {{...}}. Prints a
// line for each series of the result.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

var expressions = parser.NewParser(parser.Options{})

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(file, alert, minute string) error {
	expression, err := expressionOf(file, alert)
	if err != nil {
		return err
	}
	minutes, err := strconv.Atoi(minute)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	storage, err := tsdb.Open(folder, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer storage.Close()
	if err := load(storage); err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	at := time.Unix(int64(minutes)*60, 0)
	query, err := engine.NewInstantQuery(context.Background(), storage, nil, expression, at)
	if err != nil {
		return err
	}
	result := query.Exec(context.Background())
	if result.Err != nil {
		return result.Err
	}
	vector, err := result.Vector()
	if err != nil {
		return err
	}
	for _, sample := range vector {
		fmt.Println(sample.Metric, sample.F)
	}
	return nil
}

func expressionOf(file, alert string) (string, error) {
	groups, problems := rulefmt.ParseFile(file, false, model.UTF8Validation, expressions, slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == alert {
				return rule.Expr, nil
			}
		}
	}
	return "", fmt.Errorf("no alert %s in %s", alert, file)
}

// load appends the series of the standard input, a value a minute.
func load(storage *tsdb.DB) error {
	appender := storage.Appender(context.Background())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		of, values, err := expressions.ParseSeriesDesc(lines.Text())
		if err != nil {
			return err
		}
		for minute, value := range values {
			at := int64(minute) * 60_000
			switch {
			case value.Omitted:
			case value.Histogram != nil:
				_, err = appender.AppendHistogram(0, of, at, nil, value.Histogram)
			default:
				_, err = appender.Append(0, of, at, value.Value)
			}
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(lines.Err(), appender.Commit())
}
