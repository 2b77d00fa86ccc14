// Command gosdk makes every call about queues of Cloudflare's Go package, checks the answers, and prints the names of the
// calls. The server, the token and the account are in the variables of the environment that Cloudflare's packages read.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cloudflare/cloudflare-go/v6"
	"github.com/cloudflare/cloudflare-go/v6/queues"
)

// session is the client, and what the calls before have told.
type session struct {
	*queues.QueueService
	client *cloudflare.Client
	// id is the queue's, consumer that of its consumer.
	id, consumer string
	leases       []string
}

var account = cloudflare.F(os.Getenv("CLOUDFLARE_ACCOUNT_ID"))

// calls are made in this order.
var calls = []struct {
	name string
	make func(context.Context, *session) error
}{
	{"New", create},
	{"List", list},
	{"Get", get},
	{"Edit", edit},
	{"Update", update},
	{"Consumers.New", newConsumer},
	{"Consumers.List", listConsumers},
	{"Consumers.Update", updateConsumer},
	{"Messages.Push", push},
	{"Messages.BulkPush", bulkPush},
	{"metrics", metrics},
	{"Messages.Pull", pull},
	{"Messages.Ack", ack},
	{"Purge.Start", purge},
	{"Purge.Status", purged},
	{"Consumers.Delete", deleteConsumer},
	{"Delete", remove},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := cloudflare.NewClient()
	s := &session{QueueService: c.Queues, client: c}
	for _, call := range calls {
		if err := call.make(ctx, s); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", call.name, err)
			os.Exit(1) //nolint:gocritic // the process ends, and its context with it
		}
		fmt.Println(call.name)
	}
}

// same says what is not as it should be.
func same(what string, got, want any) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
}

// refused wants an error with a status, a code of Cloudflare's and a text.
func refused(err error, status int, code int64, text string) error {
	var e *cloudflare.Error
	if !errors.As(err, &e) || len(e.Errors) != 1 {
		return fmt.Errorf("not refused as it should be: %w", err)
	}
	if e.StatusCode != status || e.Errors[0].Code != code || !strings.Contains(e.Errors[0].Message, text) {
		return fmt.Errorf("not status %d with code %d and %q: %w", status, code, text, err)
	}
	return nil
}

func create(ctx context.Context, s *session) error {
	for _, name := range []string{"dead", "jobs"} {
		made, err := s.New(ctx, queues.QueueNewParams{AccountID: account, QueueName: cloudflare.F(name)})
		if err != nil {
			return err
		}
		if made.QueueName != name || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(made.QueueID) {
			return fmt.Errorf("made %+v", made)
		}
		s.id = made.QueueID
	}
	_, twice := s.New(ctx, queues.QueueNewParams{AccountID: account, QueueName: cloudflare.F("jobs")})
	_, invalid := s.New(ctx, queues.QueueNewParams{AccountID: account, QueueName: cloudflare.F("No Name")})
	return errors.Join(refused(twice, http.StatusBadRequest, 11009, "jobs"), refused(invalid, http.StatusBadRequest, 11003, "name"))
}

func list(ctx context.Context, s *session) error {
	pages := s.ListAutoPaging(ctx, queues.QueueListParams{AccountID: account})
	var names []string
	for pages.Next() {
		names = append(names, pages.Current().QueueName)
	}
	return errors.Join(pages.Err(), same("names", names, []string{"dead", "jobs"}))
}

// settings are the delay, the retention, and whether deliveries are paused.
func settings(q *queues.Queue) [3]any {
	return [3]any{q.Settings.DeliveryDelay, q.Settings.MessageRetentionPeriod, q.Settings.DeliveryPaused}
}

func get(ctx context.Context, s *session) error {
	q, err := s.Get(ctx, s.id, queues.QueueGetParams{AccountID: account})
	if err != nil {
		return err
	}
	_, unknown := s.Get(ctx, strings.Repeat("0", 32), queues.QueueGetParams{AccountID: account})
	return errors.Join(
		same("queue", [3]any{q.QueueName, q.ProducersTotalCount, q.ConsumersTotalCount}, [3]any{"jobs", 0.0, 0.0}),
		same("settings", settings(q), [3]any{0.0, 345600.0, false}),
		refused(unknown, http.StatusNotFound, 10104, "no queue"),
	)
}

func with(p queues.QueueSettingsParam) queues.QueueParam {
	return queues.QueueParam{Settings: cloudflare.F(p)}
}

func edit(ctx context.Context, s *session) error {
	q, err := s.Edit(ctx, s.id, queues.QueueEditParams{
		AccountID: account, Queue: with(queues.QueueSettingsParam{MessageRetentionPeriod: cloudflare.F(3600.0), DeliveryPaused: cloudflare.F(true)}),
	})
	if err != nil {
		return err
	}
	_, below := s.Edit(ctx, s.id, queues.QueueEditParams{AccountID: account, Queue: with(queues.QueueSettingsParam{DeliveryDelay: cloudflare.F(-1.0)})})
	_, renamed := s.Edit(ctx, s.id, queues.QueueEditParams{AccountID: account, Queue: queues.QueueParam{QueueName: cloudflare.F("other")}})
	return errors.Join(
		same("settings", settings(q), [3]any{0.0, 3600.0, true}),
		refused(below, http.StatusBadRequest, 100128, "delivery_delay"), refused(renamed, http.StatusBadRequest, 11003, "renamed"),
	)
}

// update puts back what it does not name.
func update(ctx context.Context, s *session) error {
	q, err := s.Update(ctx, s.id, queues.QueueUpdateParams{AccountID: account, Queue: with(queues.QueueSettingsParam{DeliveryDelay: cloudflare.F(1.0)})})
	if err != nil {
		return err
	}
	none, err := s.Update(ctx, s.id, queues.QueueUpdateParams{AccountID: account})
	if err != nil {
		return err
	}
	return errors.Join(same("settings", settings(q), [3]any{1.0, 345600.0, false}), same("settings", settings(none), [3]any{0.0, 345600.0, false}))
}

// overHTTP is what the answer says of a consumer over HTTP: its size of a batch, retries and lease, and its dead letters.
func overHTTP(c *queues.Consumer) [4]any {
	set, ok := c.Settings.(queues.ConsumerMqHTTPConsumerResponseSettings)
	if !ok {
		return [4]any{fmt.Sprintf("%T", c.Settings)}
	}
	return [4]any{set.BatchSize, set.MaxRetries, set.VisibilityTimeoutMs, c.DeadLetterQueue}
}

func newConsumer(ctx context.Context, s *session) error {
	params := queues.ConsumerNewParams{AccountID: account, Body: queues.ConsumerNewParamsBodyMqHTTPConsumerRequest{
		Type: cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestTypeHTTPPull),
		Settings: cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestSettings{
			BatchSize: cloudflare.F(7.0), VisibilityTimeoutMs: cloudflare.F(60_000.0),
		}),
	}}
	c, err := s.Consumers.New(ctx, s.id, params)
	if err != nil {
		return err
	}
	s.consumer = c.ConsumerID
	_, second := s.Consumers.New(ctx, s.id, params)
	return errors.Join(same("consumer", overHTTP(c), [4]any{7.0, 3.0, 60_000.0, ""}), refused(second, http.StatusBadRequest, 11004, "consumer over HTTP already"))
}

func consumers(ctx context.Context, s *session) ([]string, error) {
	pages := s.Consumers.ListAutoPaging(ctx, s.id, queues.ConsumerListParams{AccountID: account})
	var ids []string
	for pages.Next() {
		ids = append(ids, pages.Current().ConsumerID)
	}
	return ids, pages.Err()
}

func listConsumers(ctx context.Context, s *session) error {
	ids, err := consumers(ctx, s)
	if err != nil {
		return err
	}
	one, err := s.Consumers.Get(ctx, s.id, s.consumer, queues.ConsumerGetParams{AccountID: account})
	if err != nil {
		return err
	}
	return errors.Join(same("consumers", ids, []string{s.consumer}), same("consumer", one.ConsumerID, s.consumer))
}

func updateConsumer(ctx context.Context, s *session) error {
	c, err := s.Consumers.Update(ctx, s.id, s.consumer, queues.ConsumerUpdateParams{AccountID: account, Body: queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequest{
		Type:            cloudflare.F(queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequestTypeHTTPPull),
		DeadLetterQueue: cloudflare.F("dead"),
		Settings:        cloudflare.F(queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequestSettings{MaxRetries: cloudflare.F(1.0)}),
	}})
	if err != nil {
		return err
	}
	return same("consumer", overHTTP(c), [4]any{5.0, 1.0, 30_000.0, "dead"})
}

func push(ctx context.Context, s *session) error {
	done, err := s.Messages.Push(ctx, s.id, queues.MessagePushParams{AccountID: account, Body: queues.MessagePushParamsBodyMqQueueMessageJson{
		Body: cloudflare.F[any](map[string]int{"n": 1}),
	}})
	if err != nil {
		return err
	}
	return same("backlog", done.Metadata.Metrics.BacklogCount, 1.0)
}

func bulkPush(ctx context.Context, s *session) error {
	text := func(body string, delay float64) queues.MessageBulkPushParamsMessagesMqQueueMessageText {
		return queues.MessageBulkPushParamsMessagesMqQueueMessageText{
			Body: cloudflare.F(body), DelaySeconds: cloudflare.F(delay),
			ContentType: cloudflare.F(queues.MessageBulkPushParamsMessagesMqQueueMessageTextContentTypeText),
		}
	}
	done, err := s.Messages.BulkPush(ctx, s.id, queues.MessageBulkPushParams{AccountID: account, Messages: cloudflare.F([]queues.MessageBulkPushParamsMessageUnion{
		text("two", 0), text("three", 0), text("later", 3600),
	})})
	if err != nil {
		return err
	}
	return same("backlog", done.Metadata.Metrics.BacklogCount, 4.0)
}

// backlog is how many messages the queue holds. The package has no method for this call of the API.
func backlog(ctx context.Context, s *session) (float64, error) {
	var answer struct {
		Result struct {
			Count float64 `json:"backlog_count"`
		} `json:"result"`
	}
	err := s.client.Get(ctx, "accounts/"+account.Value+"/queues/"+s.id+"/metrics", nil, &answer)
	return answer.Result.Count, err
}

func metrics(ctx context.Context, s *session) error {
	n, err := backlog(ctx, s)
	return errors.Join(err, same("backlog", n, 4.0))
}

func pull(ctx context.Context, s *session) error {
	got, err := s.Messages.Pull(ctx, s.id, queues.MessagePullParams{AccountID: account, BatchSize: cloudflare.F(10.0), VisibilityTimeoutMs: cloudflare.F(600_000.0)})
	if err != nil {
		return err
	}
	var bodies []string
	for _, m := range got.Messages {
		bodies, s.leases = append(bodies, m.Body), append(s.leases, m.LeaseID)
		if m.Attempts != 1 || m.ID == "" || m.TimestampMs == 0 {
			return fmt.Errorf("message %+v", m)
		}
	}
	slices.Sort(bodies)
	want := []string{base64.StdEncoding.EncodeToString([]byte(`{"n":1}`)), "three", "two"}
	slices.Sort(want)
	return errors.Join(same("bodies", bodies, want), same("backlog", got.MessageBacklogCount, 4.0))
}

// ack acks all but one, which comes again and is acked then.
func ack(ctx context.Context, s *session) error {
	acks := func(ids []string) (list []queues.MessageAckParamsAck) {
		for _, id := range ids {
			list = append(list, queues.MessageAckParamsAck{LeaseID: cloudflare.F(id)})
		}
		return list
	}
	done, err := s.Messages.Ack(ctx, s.id, queues.MessageAckParams{
		AccountID: account, Acks: cloudflare.F(acks(s.leases[1:])),
		Retries: cloudflare.F([]queues.MessageAckParamsRetry{{LeaseID: cloudflare.F(s.leases[0]), DelaySeconds: cloudflare.F(0.0)}}),
	})
	if err != nil {
		return err
	}
	again, err := s.Messages.Pull(ctx, s.id, queues.MessagePullParams{AccountID: account})
	if err != nil {
		return err
	}
	if len(again.Messages) != 1 || again.Messages[0].Attempts != 2 {
		return fmt.Errorf("after the retry: %+v", again.Messages)
	}
	last, err := s.Messages.Ack(ctx, s.id, queues.MessageAckParams{AccountID: account, Acks: cloudflare.F(acks([]string{again.Messages[0].LeaseID}))})
	if err != nil {
		return err
	}
	n, err := backlog(ctx, s)
	return errors.Join(
		err, same("backlog", n, 1.0),
		same("counts", [3]any{done.AckCount, done.RetryCount, len(done.Warnings)}, [3]any{2.0, 1.0, 0}), same("acked", last.AckCount, 1.0),
	)
}

func purge(ctx context.Context, s *session) error {
	q, err := s.Purge.Start(ctx, s.id, queues.PurgeStartParams{AccountID: account, DeleteMessagesPermanently: cloudflare.F(true)})
	if err != nil {
		return err
	}
	return same("purged", q.QueueName, "jobs")
}

func purged(ctx context.Context, s *session) error {
	for {
		status, err := s.Purge.Status(ctx, s.id, queues.PurgeStatusParams{AccountID: account})
		if err != nil {
			return err
		}
		if status.StartedAt == "" {
			return fmt.Errorf("status %+v", status)
		}
		if status.Completed == "true" {
			break
		}
	}
	n, err := backlog(ctx, s)
	return errors.Join(err, same("backlog", n, 0.0))
}

func deleteConsumer(ctx context.Context, s *session) error {
	if _, err := s.Consumers.Delete(ctx, s.id, s.consumer, queues.ConsumerDeleteParams{AccountID: account}); err != nil {
		return err
	}
	ids, err := consumers(ctx, s)
	return errors.Join(err, same("consumers", len(ids), 0))
}

func remove(ctx context.Context, s *session) error {
	if _, err := s.Delete(ctx, s.id, queues.QueueDeleteParams{AccountID: account}); err != nil {
		return err
	}
	_, gone := s.Get(ctx, s.id, queues.QueueGetParams{AccountID: account})
	return refused(gone, http.StatusNotFound, 10104, "no queue")
}
