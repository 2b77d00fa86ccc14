package messages

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/runlot/runlot/client"
)

// cancel ends an operation of a queue. One of another queue is not found.
func cancel(ctx context.Context, api *client.Client, database, queue, operation string) (string, error) {
	number, err := strconv.ParseInt(operation, 10, 64)
	if err != nil {
		return "", invalid("%q is no operation", operation)
	}
	o, err := api.Operation(ctx, number)
	if err != nil {
		return "", err
	}
	if o.Database != database || o.Queue != queue {
		return "", &client.Error{Status: http.StatusNotFound, Code: "operation_unknown", Message: fmt.Sprintf("the queue %s has no operation %d", queue, number)}
	}
	_, err = api.CancelOperation(ctx, number)
	return fmt.Sprintf("Cancelled operation %d. What was done stays done.", number), err
}
