package prometheus

import "github.com/prometheus/client_golang/prometheus"

// Metric is a row of the table of metrics.
type Metric struct {
	Name, Type, Help string
	Labels           []string
}

// Types of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Names of labels.
const (
	database  = "database"
	queueName = "queue"
	app       = "app"
	state     = "state"
	outcome   = "outcome"
	use       = "use"
)

// Places in Table.
const (
	queueMessages = iota
	queueOldest
	queueDead
	queueSent
	queueSentBytes
	queueArrived
	queueLeft
	queueDelivered
	queueSettled
	queueExpired
	queueBatches
	queueHandler
	queueCalls
	queueCallsLimit
	queueLane
	databaseUp
	databaseOperations
	databaseOperationsLimit
	commitTime
	commitMessages
	poolConnections
	poolLimit
	poolWaits
	poolWaitTime
	appState
	appStarts
	appCrashes
	appMemory
	appRequests
	appActive
	cronRuns
	apiCalls
	buildInfo
	metrics
)

var ofQueue = []string{database, queueName}

// Table is every metric.
var Table = [metrics]Metric{
	queueMessages:           {"runlot_queue_messages", gauge, "Messages in the queue: visible (ready now), delayed (ready later) or in_flight (in the hands of a handler). Past 10,000 delayed ones, some may count as visible.", []string{database, queueName, state}},
	queueOldest:             {"runlot_queue_oldest_message_age_seconds", gauge, "Age of the oldest message that is visible or in flight; 0 when there is none.", ofQueue},
	queueDead:               {"runlot_queue_dead_letters", gauge, "Messages in the dead-letter queue of the queue's consumer.", ofQueue},
	queueSent:               {"runlot_queue_sent_messages_total", counter, "Messages that were sent to the queue.", ofQueue},
	queueSentBytes:          {"runlot_queue_sent_bytes_total", counter, "Bytes of the bodies of messages that were sent to the queue.", ofQueue},
	queueArrived:            {"runlot_queue_arrived_messages_total", counter, "Messages that came from another queue: dead letters, or what was redriven.", ofQueue},
	queueLeft:               {"runlot_queue_left_messages_total", counter, "Messages that are gone from the queue, for whatever reason.", ofQueue},
	queueDelivered:          {"runlot_queue_delivered_messages_total", counter, "Messages that handlers were given, each time again, counted when their batch was settled.", ofQueue},
	queueSettled:            {"runlot_queue_settled_messages_total", counter, "Messages of settled batches by what became of them: acked, retried (a retry was spent), redelivered (none was), dead or dropped.", []string{database, queueName, "result"}},
	queueExpired:            {"runlot_queue_expired_messages_total", counter, "Messages that were deleted at the end of their retention.", ofQueue},
	queueBatches:            {"runlot_queue_batches_total", counter, "Batches that ended, by outcome: ok, failed, timeout, lost or error.", []string{database, queueName, outcome}},
	queueHandler:            {"runlot_queue_handler_duration_seconds", histogram, "How long handler calls took.", ofQueue},
	queueCalls:              {"runlot_queue_handler_calls", gauge, "The most handler calls at a time within the last ten seconds.", ofQueue},
	queueCallsLimit:         {"runlot_queue_handler_calls_limit", gauge, "Handler calls that are allowed at a time now; 0 where nothing consumes the queue.", ofQueue},
	queueLane:               {"runlot_queue_lane_bytes", gauge, "Memory of the messages that are ready to be delivered.", ofQueue},
	databaseUp:              {"runlot_database_up", gauge, "1 while the queues of the database are served by this node.", []string{database}},
	databaseOperations:      {"runlot_database_operations", gauge, "Operations that the queues of the database have used of today, in UTC.", []string{database}},
	databaseOperationsLimit: {"runlot_database_operations_limit", gauge, "The daily cap of operations; 0 is none.", []string{database}},
	commitTime:              {"runlot_group_commit_duration_seconds", histogram, "How long group commits took, of sends and of settlements.", []string{database, "kind"}},
	commitMessages:          {"runlot_group_commit_messages", histogram, "How many messages a group commit held.", []string{database, "kind"}},
	poolConnections:         {"runlot_postgres_connections", gauge, "Connections to PostgreSQL beside those that the owner of the queues writes with, by what they are for: busy or idle.", []string{database, use, state}},
	poolLimit:               {"runlot_postgres_connections_limit", gauge, "The most such connections.", []string{database, use}},
	poolWaits:               {"runlot_postgres_connection_waits_total", counter, "How often one of them was waited for.", []string{database, use}},
	poolWaitTime:            {"runlot_postgres_connection_wait_seconds_total", counter, "How long they were waited for.", []string{database, use}},
	appState:                {"runlot_app_state", gauge, "1 for what the app does: live, parked, starting, restarting or stopped.", []string{app, state}},
	appStarts:               {"runlot_app_process_starts_total", counter, "Processes of the app that were started, by a deployment, a wake or a crash.", []string{app}},
	appCrashes:              {"runlot_app_process_crashes_total", counter, "Processes of the app that ended by themselves.", []string{app}},
	appMemory:               {"runlot_app_memory_bytes", gauge, "Memory of the app's process.", []string{app}},
	appRequests:             {"runlot_app_requests_total", counter, "Requests to the app that were answered, by class of the status.", []string{app, "code"}},
	appActive:               {"runlot_app_requests_active", gauge, "Requests to the app that are under way.", []string{app}},
	cronRuns:                {"runlot_cron_runs_total", counter, "Scheduled runs that ended, by outcome: ok, failed, timeout, lost, error or missed.", []string{app, outcome}},
	apiCalls:                {"runlot_api_calls_total", counter, "Calls of the API by operation, as GET /v1/openapi.json names them, and class of the status.", []string{"operation", "code"}},
	buildInfo:               {"runlot_build_info", gauge, "1, with the version of the program.", []string{"version"}},
}

// descriptions are those of the table, in its order.
func descriptions() [metrics]*prometheus.Desc {
	var list [metrics]*prometheus.Desc
	for i := range Table {
		list[i] = prometheus.NewDesc(Table[i].Name, Table[i].Help, Table[i].Labels, nil)
	}
	return list
}
