// Memory between processes. Each test forks before any machine exists, so that parent and child have one each.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

const Config config = {1, 256 * MiB, 128 * MiB, true, false};

// One end of a two-way line between parent and child.
class Line {
 public:
  explicit Line(int file) : file_(file) {}

  template <typename T>
  void send(const T& value) const {
    EXPECT_EQ(write(file_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
  }
  template <typename T>
  T receive() const {
    T out{};
    EXPECT_EQ(read(file_, &out, sizeof out), static_cast<ssize_t>(sizeof out));
    return out;
  }
  void send_file(int file) const {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    EXPECT_EQ(sendmsg(file_, &message, 0), 1);
  }
  int receive_file() const {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_EQ(recvmsg(file_, &message, 0), 1);
    int out = -1;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
      std::memcpy(&out, CMSG_DATA(header), sizeof out);
    }
    return out;
  }

 private:
  int file_;
};

// Runs both sides, each with a line to the other; the child's failed expectations fail the test.
void both(const std::function<void(const Line&)>& parent, const std::function<void(const Line&)>& child) {
  int files[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    close(files[0]);
    child(Line(files[1]));
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  close(files[1]);
  parent(Line(files[0]));
  int status = -1;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(files[0]);
}

std::uint64_t allocated(Machine& machine, std::uint64_t bytes) {
  std::uint64_t out = 0;
  EXPECT_EQ(machine.malloc(0, bytes, out), Code::success);
  return out;
}

TEST(IpcTest, PlainMemoryIsSharedBothWays) {
  both(
      [](const Line& line) {
        Machine machine(config);
        const std::uint64_t at = allocated(machine, 100);
        EXPECT_EQ(machine.fill(0, at, 5, 100, legacy_stream), Code::success);
        EXPECT_EQ(machine.synchronize(0), Code::success);
        IpcMemory ticket;
        EXPECT_EQ(machine.ipc_export(at + 50, ticket), Code::success);
        std::uint64_t out = 0;
        EXPECT_EQ(machine.ipc_import(0, ticket, out), Code::invalid_context);  // its own
        line.send(ticket);
        line.receive<int>();
        EXPECT_EQ(bytes_at(at)[1], 6);
      },
      [](const Line& line) {
        Machine machine(config);
        const auto ticket = line.receive<IpcMemory>();
        std::uint64_t at = 0;
        std::uint64_t again = 0;
        EXPECT_EQ(machine.ipc_import(0, ticket, at), Code::success);
        EXPECT_EQ(machine.ipc_import(0, ticket, again), Code::success);
        EXPECT_EQ(again, at);
        PointerInfo info;
        EXPECT_TRUE(machine.find_pointer(at, info));
        EXPECT_EQ(info.kind, PointerKind::imported);
        EXPECT_EQ(info.bytes, 100U);
        EXPECT_EQ(machine.used_bytes(0), 0U);
        EXPECT_EQ(bytes_at(at)[99], 5);
        EXPECT_EQ(machine.fill(0, at + 1, 6, 1, legacy_stream), Code::success);
        EXPECT_EQ(machine.free(at), Code::invalid_value);
        EXPECT_EQ(machine.ipc_close(at), Code::success);
        EXPECT_EQ(machine.ipc_close(at), Code::success);
        EXPECT_EQ(machine.ipc_close(at), Code::invalid_value);
        line.send(0);
      });
}

TEST(IpcTest, WhatIsImportedIsNotGivenOutAnew) {
  both(
      [](const Line& line) {
        Machine machine(config);
        const std::uint64_t at = allocated(machine, 100);
        bytes_at(at)[0] = 5;
        IpcMemory ticket;
        EXPECT_EQ(machine.ipc_export(at, ticket), Code::success);
        line.send(ticket);
        line.receive<int>();  // imported
        EXPECT_EQ(machine.free(at), Code::success);
        EXPECT_EQ(machine.used_bytes(0), 0U);
        const std::uint64_t next = allocated(machine, 100);
        EXPECT_NE(next, at);
        bytes_at(next)[0] = 9;
        line.send(0);
        line.receive<int>();  // closed
        EXPECT_EQ(allocated(machine, 100), at);
        EXPECT_EQ(bytes_at(at)[0], 0);
      },
      [](const Line& line) {
        Machine machine(config);
        std::uint64_t at = 0;
        EXPECT_EQ(machine.ipc_import(0, line.receive<IpcMemory>(), at), Code::success);
        line.send(0);
        line.receive<int>();
        EXPECT_EQ(bytes_at(at)[0], 5);
        EXPECT_EQ(machine.ipc_close(at), Code::success);
        line.send(0);
      });
}

TEST(IpcTest, AnImporterThatDiesLetsGo) {
  both(
      [](const Line& line) {
        Machine machine(config);
        const std::uint64_t at = allocated(machine, 100);
        IpcMemory ticket;
        EXPECT_EQ(machine.ipc_export(at, ticket), Code::success);
        line.send(ticket);
        line.receive<int>();
        char end = 0;
        EXPECT_EQ(machine.free(at), Code::success);
        line.send(end);
      },
      [](const Line& line) {
        Machine machine(config);
        std::uint64_t at = 0;
        EXPECT_EQ(machine.ipc_import(0, line.receive<IpcMemory>(), at), Code::success);
        line.send(0);
        line.receive<char>();
      });
}

TEST(IpcTest, HandlesTravelAsFiles) {
  both(
      [](const Line& line) {
        Machine machine(config);
        HandleId handle = 0;
        EXPECT_EQ(machine.create(0, Location::device, chunk_bytes, handle), Code::success);
        std::uint64_t at = 0;
        EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::success);
        EXPECT_EQ(machine.map(at, chunk_bytes, handle), Code::success);
        EXPECT_EQ(machine.set_access(0, at, chunk_bytes), Code::success);
        bytes_at(at)[7] = 7;
        int file = -1;
        EXPECT_EQ(machine.export_handle(handle, file), Code::success);
        line.send_file(file);
        // In the same process it is another handle of the same memory.
        HandleId same = 0;
        EXPECT_EQ(machine.import_handle(file, same), Code::success);
        EXPECT_EQ(machine.release(same), Code::success);
        EXPECT_EQ(machine.used_bytes(0), chunk_bytes);
        close(file);
        line.receive<int>();
        EXPECT_EQ(bytes_at(at)[8], 8);
        // The importer keeps the bytes.
        EXPECT_EQ(machine.unmap(at, chunk_bytes), Code::success);
        EXPECT_EQ(machine.release(handle), Code::success);
        EXPECT_EQ(machine.used_bytes(0), 0U);
        line.send(0);
        line.receive<int>();
      },
      [](const Line& line) {
        Machine machine(config);
        const int file = line.receive_file();
        HandleId handle = 0;
        EXPECT_EQ(machine.import_handle(0, handle), Code::invalid_value);
        EXPECT_EQ(machine.import_handle(file, handle), Code::success);
        close(file);
        HandleInfo info;
        EXPECT_EQ(machine.handle_info(handle, info), Code::success);
        EXPECT_EQ(info.bytes, chunk_bytes);
        std::uint64_t at = 0;
        EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::success);
        EXPECT_EQ(machine.map(at, chunk_bytes, handle), Code::success);
        EXPECT_EQ(machine.set_access(0, at, chunk_bytes), Code::success);
        EXPECT_EQ(bytes_at(at)[7], 7);
        bytes_at(at)[8] = 8;
        line.send(0);
        line.receive<int>();
        EXPECT_EQ(bytes_at(at)[7], 7);
        line.send(0);
      });
}

TEST(IpcTest, EventsOfAnotherProcessAreComplete) {
  both(
      [](const Line& line) {
        Machine machine(config);
        EventId event = 0;
        EventId own = 0;
        IpcEvent ticket;
        EXPECT_EQ(machine.event_create(0, own), Code::success);
        EXPECT_EQ(machine.event_export(own, ticket), Code::invalid_handle);
        EXPECT_EQ(machine.event_create(0, event, {false, true}), Code::success);
        EXPECT_EQ(machine.launch(0, legacy_stream, {"kernel", {}, {}, 50'000'000, {}}), Code::success);
        EXPECT_EQ(machine.event_record(0, event, legacy_stream), Code::success);
        EXPECT_GE(machine.now_ns(), 50'000'000U);
        EXPECT_EQ(machine.event_export(event, ticket), Code::success);
        line.send(ticket);
      },
      [](const Line& line) {
        Machine machine(config);
        EventId event = 0;
        EXPECT_EQ(machine.event_import(0, line.receive<IpcEvent>(), event), Code::success);
        EXPECT_EQ(machine.event_query(event), Code::success);
        EXPECT_EQ(machine.stream_wait(0, legacy_stream, event), Code::success);
        EXPECT_EQ(machine.event_destroy(event), Code::success);
      });
}

TEST(IpcTest, ForgedTicketsAreRefused) {
  Machine machine(config);
  std::uint64_t at = 0;
  EventId event = 0;
  EXPECT_EQ(machine.ipc_import(0, IpcMemory{}, at), Code::invalid_value);
  EXPECT_EQ(machine.event_import(0, IpcEvent{}, event), Code::invalid_value);
}

TEST(ForkTest, AChildCannotUseItsParentsMachine) {
  auto machine = std::make_unique<Machine>(config);
  const std::uint64_t at = allocated(*machine, 100);
  bytes_at(at)[0] = 5;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::uint64_t out = 0;
    EXPECT_EQ(machine->malloc(0, 8, out), Code::not_initialized);
    EXPECT_EQ(machine->free(at), Code::not_initialized);
    EXPECT_EQ(machine->synchronize(0), Code::not_initialized);
    EXPECT_EQ(machine->used_bytes(0), 0U);
    EXPECT_FALSE(machine->accessible(0, at, 1));
    // Its memory is not there at all.
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], bytes_at(at), 1), -1);
    EXPECT_EQ(errno, EFAULT);
    machine.reset();
    const Machine own(config);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes_at(at)[0], 5);
  EXPECT_EQ(machine->free(at), Code::success);
}

}  // namespace
}  // namespace reprieve::simgpu
