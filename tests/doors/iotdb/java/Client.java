import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** Uses IoTDB's JDBC driver, and prints what it reads. Takes the port, the user and the password. */
public class Client {
  public static void main(String[] arguments) throws Exception {
    Class.forName("org.apache.iotdb.jdbc.IoTDBDriver");
    String url = "jdbc:iotdb://127.0.0.1:" + arguments[0] + "/";
    try (Connection connection = DriverManager.getConnection(url, arguments[1], arguments[2]);
        Statement statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE root.jdbc");
      for (String series : new String[] {"b BOOLEAN", "i INT32", "l INT64", "f FLOAT", "d DOUBLE", "t TEXT", "s STRING", "ts TIMESTAMP", "day DATE", "raw BLOB"}) {
        String[] parts = series.split(" ");
        statement.addBatch("CREATE TIMESERIES root.jdbc.d." + parts[0] + " WITH DATATYPE=" + parts[1]);
      }
      System.out.println("batch of " + statement.executeBatch().length);
      statement.execute("INSERT INTO root.jdbc.d(time, b, i, l, f, d, t, s, ts, day, raw) VALUES "
          + "(1, true, -7, 9007199254740993, 1.5, 0.1, 'grün', 'x', 1700000000000, '2024-02-29', X'00ff')");
      try (PreparedStatement prepared = connection.prepareStatement("INSERT INTO root.jdbc.d(time, i, t) VALUES (?, ?, ?)")) {
        for (int row = 2; row <= 5; row++) {
          prepared.setLong(1, row);
          prepared.setInt(2, row * 10);
          prepared.setString(3, "row " + row);
          prepared.execute();
        }
      }
      statement.setFetchSize(2);
      print(statement, "SELECT b, i, l, f, d, t, s, ts, day, raw FROM root.jdbc.d");
      print(statement, "SELECT count(i), sum(i) FROM root.jdbc.d");
      print(statement, "SHOW DEVICES root.jdbc.**");
      print(statement, "SELECT i FROM root.jdbc.d WHERE time > 100");
      try {
        statement.executeQuery("SELECT nonsense( FROM root.jdbc.d");
      } catch (SQLException error) {
        System.out.println("error " + error.getErrorCode() + " " + error.getMessage().substring(0, 30));
      }
      try {
        statement.execute("CREATE DATABASE root.jdbc");
      } catch (SQLException error) {
        System.out.println("error " + error.getErrorCode() + " " + error.getMessage());
      }
    }
    try {
      DriverManager.getConnection(url, arguments[1], "wrong");
    } catch (SQLException error) {
      System.out.println("rejected: " + error.getMessage());
    }
  }

  private static void print(Statement statement, String query) throws SQLException {
    try (ResultSet result = statement.executeQuery(query)) {
      ResultSetMetaData columns = result.getMetaData();
      StringBuilder line = new StringBuilder();
      for (int column = 1; column <= columns.getColumnCount(); column++) {
        line.append(columns.getColumnName(column)).append(' ').append(columns.getColumnTypeName(column)).append(" | ");
      }
      System.out.println(line);
      while (result.next()) {
        line.setLength(0);
        for (int column = 1; column <= columns.getColumnCount(); column++) {
          line.append(result.getString(column)).append(" | ");
        }
        System.out.println(line);
      }
    }
  }
}
