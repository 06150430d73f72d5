//! What every store promises of queued notifications: one for each event and sink until it is delivered or given up.

use acpx_core::model::{
    DeliveryOutcome, Lifecycle, Notification, NotificationEvent, QueuedNotification, SinkStatus,
};
use acpx_core::store::{Change, Durability, Lease, MAX_NOTIFICATIONS};

use super::samples::{at, event, host, id, record};
use super::{AnyStore, create};

fn lost(turn: u64) -> NotificationEvent {
    NotificationEvent::HostLost { turn }
}

fn notification(time: i64, event: NotificationEvent, sinks: &[&str]) -> Change {
    let sinks = sinks.iter().map(|sink| (*sink).to_owned()).collect();
    Change::Notification(Notification { at: at(time), event, sinks, due_at: at(time) })
}

fn waits(question: &str) -> NotificationEvent {
    NotificationEvent::Waiting { question_id: question.to_owned(), is_form: false, text: None }
}

fn queued(name: &str, sink: &str, time: i64, event: NotificationEvent) -> QueuedNotification {
    QueuedNotification {
        id: event.id(&id(name)),
        sink: sink.to_owned(),
        record: id(name),
        at: at(time),
        event,
        attempts: 0,
        next_attempt_at: at(time),
    }
}

async fn append(store: &AnyStore, lease: &Lease, changes: Vec<Change>) {
    store.append(lease.clone(), changes, Durability::Process).await.unwrap();
}

async fn waiting(store: &AnyStore, sink: &str) -> Vec<QueuedNotification> {
    store.notifications(sink.to_owned(), usize::MAX).await.unwrap()
}

pub(super) async fn notification_is_queued_once_for_each_sink(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    append(
        &store,
        &lease,
        vec![Change::Event(event(1, "one")), notification(20, lost(2), &["phone", "hook"])],
    )
    .await;
    let before = store.record(id("r")).await.unwrap();
    append(&store, &lease, vec![notification(10, lost(1), &["phone"])]).await;
    // A notification is no use of the record.
    assert_eq!(store.record(id("r")).await.unwrap(), before);
    // The same event again, with another time.
    append(&store, &lease, vec![notification(30, lost(2), &["phone"])]).await;
    let (first, second) = (queued("r", "phone", 10, lost(1)), queued("r", "phone", 20, lost(2)));
    assert_eq!(waiting(&store, "phone").await, [first.clone(), second]);
    assert_eq!(waiting(&store, "hook").await, [queued("r", "hook", 20, lost(2))]);
    assert_eq!(store.notifications("phone".to_owned(), 1).await.unwrap(), [first]);
    assert_eq!(waiting(&store, "other").await, []);
    let sinks = store.notification_sinks().await.unwrap();
    let counts: Vec<_> = sinks.iter().map(|sink| (sink.sink.as_str(), sink.queued)).collect();
    assert_eq!(counts, [("hook", 1), ("phone", 2)]);
}

pub(super) async fn pending_request_has_one_notification_until_it_is_settled(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    let other = vec![notification(5, waits("q9"), &["phone"])];
    store.create(record("other", 1), other, host("h")).await.unwrap();
    let others = || queued("other", "phone", 5, waits("q9"));
    append(&store, &lease, vec![notification(10, waits("q1"), &["phone", "hook"])]).await;
    append(
        &store,
        &lease,
        vec![notification(20, waits("q2"), &["phone"]), notification(30, lost(1), &["phone"])],
    )
    .await;
    let (second, turn) = (queued("r", "phone", 20, waits("q2")), queued("r", "phone", 30, lost(1)));
    assert_eq!(waiting(&store, "phone").await, [others(), second.clone(), turn.clone()]);
    assert_eq!(waiting(&store, "hook").await, [queued("r", "hook", 10, waits("q1"))]);
    // The same event again changes nothing.
    append(&store, &lease, vec![notification(40, waits("q2"), &["phone"])]).await;
    assert_eq!(waiting(&store, "phone").await, [others(), second, turn.clone()]);
    append(&store, &lease, vec![Change::RequestSettled]).await;
    assert_eq!(waiting(&store, "phone").await, [others(), turn]);
    assert_eq!(waiting(&store, "hook").await, []);
}

pub(super) async fn notification_of_a_refused_append_is_not_queued(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    let gap = vec![notification(10, lost(1), &["phone"]), Change::Event(event(9, "nine"))];
    store.append(lease, gap, Durability::Process).await.unwrap_err();
    assert_eq!(waiting(&store, "phone").await, []);
}

pub(super) async fn settled_notification_leaves_the_queue_unless_it_is_tried_again(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    append(&store, &lease, (1..=3).map(|turn| notification(10, lost(turn), &["phone"])).collect()).await;
    let settle = async |turn, outcome| {
        store.settle_notification(lost(turn).id(&id("r")), "phone".to_owned(), outcome).await.unwrap();
    };
    let failed = |time, next| DeliveryOutcome::Failed {
        at: at(time),
        next_attempt_at: at(next),
        error: "refused".to_owned(),
    };
    settle(1, failed(11, 90)).await;
    settle(1, failed(12, 91)).await;
    let again =
        QueuedNotification { attempts: 2, next_attempt_at: at(91), ..queued("r", "phone", 10, lost(1)) };
    // It is behind those that are due.
    assert_eq!(waiting(&store, "phone").await.last(), Some(&again));
    settle(2, DeliveryOutcome::Delivered { at: at(13) }).await;
    settle(3, DeliveryOutcome::GivenUp { at: at(14), error: "too old".to_owned() }).await;
    assert_eq!(waiting(&store, "phone").await, [again]);
    // It is not there any more.
    settle(2, DeliveryOutcome::Delivered { at: at(15) }).await;
    let status = SinkStatus {
        sink: "phone".to_owned(),
        queued: 1,
        delivered: 1,
        given_up: 1,
        dropped: 0,
        delivered_at: Some(at(13)),
        error: Some((at(14), "too old".to_owned())),
    };
    assert_eq!(store.notification_sinks().await.unwrap(), [status]);
}

pub(super) async fn full_queue_of_a_sink_drops_its_oldest_notifications(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    let most = MAX_NOTIFICATIONS as u64;
    let many = (1..=most + 2).map(|turn| notification(turn.cast_signed(), lost(turn), &["phone"]));
    append(&store, &lease, many.chain([notification(1, lost(1), &["hook"])]).collect()).await;
    let left = waiting(&store, "phone").await;
    assert_eq!((left.len() as u64, left[0].event.clone()), (most, lost(3)));
    assert_eq!(waiting(&store, "hook").await.len(), 1);
    let sinks = store.notification_sinks().await.unwrap();
    let dropped: Vec<_> = sinks.iter().map(|sink| (sink.queued, sink.dropped)).collect();
    assert_eq!(dropped, [(1, 0), (most, 2)]);
}

pub(super) async fn notifications_of_a_deleted_record_are_erased(store: AnyStore) {
    let lease = create(&store, record("r", 1)).await;
    append(&store, &lease, vec![notification(10, lost(1), &["phone"])]).await;
    let other = vec![notification(11, lost(1), &["phone"])];
    store.create(record("other", 1), other, host("h")).await.unwrap();
    append(&store, &lease, vec![Change::Lifecycle(Lifecycle::Deleted { at: at(12) })]).await;
    assert_eq!(waiting(&store, "phone").await, [queued("other", "phone", 11, lost(1))]);
}
